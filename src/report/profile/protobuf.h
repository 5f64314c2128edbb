/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages in the encoding of Protocol Buffers: varints, and fields with a length. As in
 * proto3, a number that is 0 is left out, for that is what readers take it for.
 */
#ifndef VT_REPORT_PROFILE_PROTOBUF_H
#define VT_REPORT_PROFILE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message, or a part of one. Zero-initialised is empty. */
struct vt_proto {
	uint8_t *data;
	size_t n, capacity;
	bool failed; /* out of memory: every call does nothing */
};

void vt_proto_deinit(struct vt_proto *proto);
void vt_proto_clear(struct vt_proto *proto);

void vt_proto_uint(struct vt_proto *proto, unsigned int field, uint64_t value);
void vt_proto_bytes(struct vt_proto *proto, unsigned int field, const void *data, size_t n);
void vt_proto_text(struct vt_proto *proto, unsigned int field, const char *text);

/* A message in this one. */
void vt_proto_message(struct vt_proto *proto, unsigned int field, const struct vt_proto *message);

/* One more of a packed list, which is then a message in another one. */
void vt_proto_item(struct vt_proto *proto, uint64_t value);

#endif
