/* Members of requests that are not read: those without an effect on the response, and those whose effect is not
 * supported. */
#ifndef BO_SERVE_MEMBERS_H
#define BO_SERVE_MEMBERS_H

#include "request.h"

/* The names of the members that were read. */
typedef struct bo_member_names {
    const char *items[64];
    size_t count;
} bo_member_names;

void bo_members_add(bo_member_names *read, const char *name);
/* Refuses a body with too many members or with a repeated member. Call it before members are looked up. */
bool bo_members_check_names(const bo_json *body, bo_refusal *refusal);
/* True if an object has at most 64 members. Lookups are linear, so many members would take quadratic time. */
bool bo_members_are_few(const bo_json *object);
/* Refuses members that are not in `read` and are unknown or have an unsupported value. */
bool bo_members_check(const bo_json *body, bo_request_kind kind, const bo_member_names *read, bo_refusal *refusal);

#endif
