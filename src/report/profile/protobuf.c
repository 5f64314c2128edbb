/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum { TYPE_VARINT = 0, TYPE_BYTES = 2, MAX_VARINT = 10 };

void vt_proto_deinit(struct vt_proto *proto)
{
	free(proto->data);
	*proto = (struct vt_proto){ 0 };
}

void vt_proto_clear(struct vt_proto *proto)
{
	proto->n = 0;
}

static bool reserve(struct vt_proto *proto, size_t n)
{
	if (!proto->failed && !vt_vec_reserve(proto, proto->n + n))
		proto->failed = true;
	return !proto->failed;
}

/* Seven bits a byte, the lowest first; the highest bit says that more follow. */
void vt_proto_item(struct vt_proto *proto, uint64_t value)
{
	if (!reserve(proto, MAX_VARINT))
		return;
	for (; value >= 0x80; value >>= 7)
		proto->data[proto->n++] = (uint8_t)(value | 0x80);
	proto->data[proto->n++] = (uint8_t)value;
}

void vt_proto_uint(struct vt_proto *proto, unsigned int field, uint64_t value)
{
	if (!value)
		return;
	vt_proto_item(proto, (uint64_t)field << 3 | TYPE_VARINT);
	vt_proto_item(proto, value);
}

void vt_proto_bytes(struct vt_proto *proto, unsigned int field, const void *data, size_t n)
{
	vt_proto_item(proto, (uint64_t)field << 3 | TYPE_BYTES);
	vt_proto_item(proto, n);
	if (!n || !reserve(proto, n))
		return;
	memcpy(proto->data + proto->n, data, n);
	proto->n += n;
}

void vt_proto_text(struct vt_proto *proto, unsigned int field, const char *text)
{
	vt_proto_bytes(proto, field, text, strlen(text));
}

void vt_proto_message(struct vt_proto *proto, unsigned int field, const struct vt_proto *message)
{
	vt_proto_bytes(proto, field, message->data, message->n);
	proto->failed |= message->failed;
}
