/* The members of requests that are not read: those without an effect on the answer, and those that would change it in a
 * way that the server does not support. */
#ifndef BO_SERVE_MEMBERS_H
#define BO_SERVE_MEMBERS_H

#include "request.h"

/* The names of the members that were read. */
typedef struct bo_member_names {
    const char *items[64];
    size_t count;
} bo_member_names;

void bo_members_add(bo_member_names *read, const char *name);
/* Before members are searched: refuses a body with too many of them, or with one that occurs twice. */
bool bo_members_check_names(const bo_json *body, bo_refusal *refusal);
/* Whether an object has at most 64 members. Objects are searched from their start, so that many members would take
 * quadratic time. */
bool bo_members_are_few(const bo_json *object);
/* Refuses members other than those `read` that are unknown, or whose value has an effect that is not supported. */
bool bo_members_check(const bo_json *body, bo_request_kind kind, const bo_member_names *read, bo_refusal *refusal);

#endif
