/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_ADVISE_ADVISE_H
#define VT_ADVISE_ADVISE_H

#include "model/model.h"

/*
 * Fills model.advice, from the model alone, once vt_model_account() has finished it; what was there
 * goes. Returns false when out of memory: advice may be missing then.
 */
bool vt_advise(struct vt_model *model);

#endif
