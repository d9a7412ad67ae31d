/* Inside of a stream: rows of a source as the schema wants them. */
#ifndef BO_IO_STREAM_H
#define BO_IO_STREAM_H

#include "schema.h"

/* Takes `source` over, also when it fails; the source stands at its start. */
bo_status bo_stream_create(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_source *source,
                           bo_stream **out);
bool bo_stream_has_target(const bo_stream *stream);
const bo_source *bo_stream_source(const bo_stream *stream);

#endif
