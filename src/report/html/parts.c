/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/parts.h"

#define PART(name)                               \
	extern const char vt_html_part_##name[]; \
	extern const char vt_html_part_##name##_end[];
#define SCRIPT(name) PART(name)

PART(template)
PART(style)
#include "report/html/scripts.h"
#undef SCRIPT

const struct vt_html_part vt_html_template = { vt_html_part_template, vt_html_part_template_end };
const struct vt_html_part vt_html_style = { vt_html_part_style, vt_html_part_style_end };

const struct vt_html_part vt_html_scripts[] = {
#define SCRIPT(name) { vt_html_part_##name, vt_html_part_##name##_end },
#include "report/html/scripts.h"
#undef SCRIPT
};
const size_t vt_html_n_scripts = sizeof(vt_html_scripts) / sizeof(vt_html_scripts[0]);
