/* Values of the expressions of a template. */
#include "jinja_run.h"
#include "vocabulary.h"

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

/* The place of a name: its variable, or the empty place for it; NULL: the scope has no places. A template can choose
 * names with colliding hashes, so every probe is charged. */
static bo_status find_place(bo_jinja_run *run, const bo_jinja_frame *frame, const char *name, size_t length,
                            bo_jinja_variable **out)
{
    *out = NULL;
    if (!frame->places) return bo_jinja_charge(run, 0);
    for (size_t at = bo_hash_bytes(name, length);; at++) {
        bo_jinja_variable *place = *out = &frame->variables[at & (frame->places - 1)];
        BO_TRY(bo_jinja_charge(run, length));
        if (!place->name || (place->name_length == length && memcmp(place->name, name, length) == 0)) return BO_OK;
    }
}

/* *out is NULL if the scope has no such variable. */
static bo_status find_in(bo_jinja_run *run, const bo_jinja_frame *frame, const char *name, size_t length,
                         bo_jinja_variable **out)
{
    BO_TRY(find_place(run, frame, name, length, out));
    if (*out && !(*out)->name) *out = NULL;
    return BO_OK;
}

/* Doubles the places when three of four would be occupied. */
static bo_status grow_frame(bo_jinja_run *run, bo_jinja_frame *frame)
{
    enum { MIN_PLACES = 4 };
    bo_jinja_frame larger = {.parent = frame->parent, .places = frame->places ? 2 * frame->places : MIN_PLACES};
    if (4 * (frame->count + 1) <= 3 * frame->places) return BO_OK;
    larger.variables = bo_jinja_alloc(&run->arena, larger.places, sizeof *larger.variables);
    if (!larger.variables) return BO_MEMORY;
    memset(larger.variables, 0, larger.places * sizeof *larger.variables);
    for (size_t i = 0; i < frame->places; i++) {
        const bo_jinja_variable *variable = &frame->variables[i];
        bo_jinja_variable *place;
        if (!variable->name) continue;
        BO_TRY(find_place(run, &larger, variable->name, variable->name_length, &place));
        *place = *variable;
        larger.count++;
    }
    *frame = larger;
    return BO_OK;
}

/* Sets a variable of the current scope. */
bo_status bo_jinja_assign(bo_jinja_run *run, const char *name, size_t length, bo_jinja_value value)
{
    bo_jinja_frame *frame = run->frame;
    bo_jinja_variable *place;
    BO_TRY(grow_frame(run, frame));
    BO_TRY(find_place(run, frame, name, length, &place));
    frame->count += !place->name;
    *place = (bo_jinja_variable){.name = name, .name_length = length, .value = value};
    return BO_OK;
}

/* Functions of Jinja2 that are outside the subset, not undefined names. */
static bool is_other_function(const bo_jinja_node *node)
{
    static const char *const names[] = {"lipsum", "cycler", "joiner", "caller", "varargs", "kwargs", "self"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == node->name_length && memcmp(names[i], node->name, node->name_length) == 0) return true;
    return false;
}

static bool is_name(const bo_jinja_node *node, const char *name)
{
    return node->name_length == strlen(name) && memcmp(node->name, name, node->name_length) == 0;
}

static bo_status look_up(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    for (bo_jinja_frame *frame = run->frame; frame; frame = frame->parent) {
        bo_jinja_variable *found;
        BO_TRY(find_in(run, frame, node->name, node->name_length, &found));
        if (found) {
            *out = found->value;
            return BO_OK;
        }
    }
    const bool function =
        bo_jinja_find_function(node->name, node->name_length) || is_name(node, "namespace") || is_name(node, "dict");
    if (!function && is_other_function(node))
        return bo_jinja_fail(run, BO_UNSUPPORTED, "the name '%.*s' is not supported", (int)node->name_length,
                             node->name);
    *out = (bo_jinja_value){
        .kind = function ? BO_JINJA_FUNCTION : BO_JINJA_UNDEFINED, .length = node->name_length, .text = node->name};
    return BO_OK;
}

bo_status bo_jinja_open_frame(bo_jinja_run *run, bo_jinja_frame *parent)
{
    bo_jinja_frame *frame = bo_jinja_alloc(&run->arena, 1, sizeof *frame);
    if (!frame) return BO_MEMORY;
    *frame = (bo_jinja_frame){.parent = parent};
    run->frame = frame;
    return BO_OK;
}

static bo_status unpack(bo_jinja_run *run, const bo_jinja_node *target, const bo_jinja_value *value)
{
    bo_jinja_list *items;
    size_t i = 0;
    BO_TRY(bo_jinja_iterate(run, value, &items));
    for (const bo_jinja_node *name = target->items; name; name = name->next, i++)
        if (i < items->count) BO_TRY(bo_jinja_assign(run, name->name, name->name_length, items->items[i]));
    if (i == items->count) return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "expected %zu values to unpack, found %zu", i, items->count);
}

/* transformers refuses attributes of namespaces that start with an underscore. */
static bo_status check_namespace(bo_jinja_run *run, const char *name, size_t length)
{
    if (length == 0 || name[0] != '_') return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "the attribute '%.*s' of a namespace starts with an underscore",
                         (int)(length < 80 ? length : 80), name);
}

bo_status bo_jinja_assign_target(bo_jinja_run *run, const bo_jinja_node *target, bo_jinja_value value)
{
    if (target->kind == BO_JINJA_VARIABLE) return bo_jinja_assign(run, target->name, target->name_length, value);
    if (target->kind == BO_JINJA_MAKE_TUPLE) return unpack(run, target, &value);
    bo_jinja_value owner;
    if (target->kind != BO_JINJA_ATTRIBUTE)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "an assignment to an item is not supported");
    BO_TRY(bo_jinja_evaluate(run, target->first, &owner));
    if (owner.kind != BO_JINJA_NAMESPACE)
        return bo_jinja_fail(run, BO_INVALID, "only attributes of a namespace can be assigned, found %s",
                             bo_jinja_kind_name(&owner));
    BO_TRY(check_namespace(run, target->name, target->name_length));
    return bo_jinja_dict_set(run, owner.dict, bo_jinja_of_text(target->name, target->name_length), value);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bo_status loop_attribute(bo_jinja_run *run, const bo_jinja_loop *loop, const bo_jinja_node *node,
                                bo_jinja_value *out)
{
    const int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    const bo_jinja_value none = {.kind = BO_JINJA_UNDEFINED, .length = node->name_length, .text = node->name};
    const struct {
        const char *name;
        bo_jinja_value value;
    } attributes[] = {
        {"index", bo_jinja_of_whole(index + 1)},
        {"index0", bo_jinja_of_whole(index)},
        {"revindex", bo_jinja_of_whole(count - index)},
        {"revindex0", bo_jinja_of_whole(count - index - 1)},
        {"first", bo_jinja_of_boolean(index == 0)},
        {"last", bo_jinja_of_boolean(index + 1 == count)},
        {"length", bo_jinja_of_whole(count)},
        {"depth", bo_jinja_of_whole(1)},
        {"depth0", bo_jinja_of_whole(0)}, /* only recursive loops are deeper */
        {"previtem", index > 0 ? loop->items->items[index - 1] : none},
        {"nextitem", index + 1 < count ? loop->items->items[index + 1] : none},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (!is_name(node, attributes[i].name)) continue;
        *out = attributes[i].value;
        return BO_OK;
    }
    return bo_jinja_fail(run, BO_UNSUPPORTED, "the attribute 'loop.%.*s' is not supported", (int)node->name_length,
                         node->name);
}

static bo_status refuse_method(bo_jinja_run *run, const bo_jinja_node *node, const bo_jinja_value *of, bool called)
{
    return bo_jinja_fail(run, BO_UNSUPPORTED, "the method '%.*s' of %s %sis not supported",
                         (int)(node->name_length < 80 ? node->name_length : 80), node->name, bo_jinja_kind_name(of),
                         called ? "" : "without a call ");
}

static bo_status attribute_of(bo_jinja_run *run, const bo_jinja_value *of, const bo_jinja_node *node,
                              bo_jinja_value *out)
{
    bool known;
    const bo_jinja_value key = bo_jinja_of_text(node->name, node->name_length);
    if (of->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, of);
    if (of->kind == BO_JINJA_LOOP) return loop_attribute(run, of->loop, node, out);
    if (of->kind == BO_JINJA_MACRO || of->kind == BO_JINJA_FUNCTION)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "attributes of %s are not supported", bo_jinja_kind_name(of));
    const bo_jinja_filter *method = bo_jinja_find_method(of, node->name, node->name_length, &known);
    if (method || known) return refuse_method(run, node, of, false);
    return bo_jinja_item(run, of, &key, out);
}

/* x["name"] is an item if there is one; a method otherwise, which is refused. */
static bo_status item_of(bo_jinja_run *run, const bo_jinja_value *of, const bo_jinja_value *key, bo_jinja_value *out)
{
    if (of->kind == BO_JINJA_LOOP || of->kind == BO_JINJA_MACRO || of->kind == BO_JINJA_FUNCTION)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "items of %s are not supported", bo_jinja_kind_name(of));
    if (of->kind == BO_JINJA_DICT && key->kind > BO_JINJA_TEXT && key->kind != BO_JINJA_TUPLE) {
        *out = (bo_jinja_value){.kind = BO_JINJA_UNDEFINED, .length = 4, .text = "item"};
        return BO_OK;
    }
    BO_TRY(bo_jinja_item(run, of, key, out));
    if (out->kind != BO_JINJA_UNDEFINED || key->kind != BO_JINJA_TEXT) return BO_OK;
    bool known;
    const bo_jinja_node name = {.name = key->text, .name_length = key->length};
    const bo_jinja_filter *method = bo_jinja_find_method(of, key->text, key->length, &known);
    return method || known ? refuse_method(run, &name, of, false) : BO_OK;
}

static bo_status evaluate_slice(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_value of, bounds[3] = {{0}};
    const bo_jinja_node *nodes[3] = {node->second, node->third, node->fourth};
    BO_TRY(bo_jinja_evaluate(run, node->first, &of));
    for (size_t i = 0; i < 3; i++)
        if (nodes[i]) BO_TRY(bo_jinja_evaluate(run, nodes[i], &bounds[i]));
    return bo_jinja_slice(run, &of, bounds, out);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bo_status evaluate_arguments(bo_jinja_run *run, const bo_jinja_node *items, bo_jinja_arguments *out)
{
    *out = (bo_jinja_arguments){0};
    for (const bo_jinja_node *item = items; item; item = item->next) {
        if (out->count == BO_JINJA_ARGUMENTS)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "more than %d arguments are not supported", BO_JINJA_ARGUMENTS);
        out->names[out->count] = item->name ? item : NULL;
        BO_TRY(bo_jinja_evaluate(run, item->first, &out->values[out->count]));
        out->count++;
    }
    return BO_OK;
}

static bo_status bind_keyword(bo_jinja_run *run, const bo_jinja_node *macro, const bo_jinja_node *keyword,
                              bo_jinja_value value)
{
    for (const bo_jinja_node *p = macro->items; p; p = p->next) {
        if (p->name_length != keyword->name_length || memcmp(p->name, keyword->name, p->name_length) != 0) continue;
        bo_jinja_variable *given;
        BO_TRY(find_in(run, run->frame, p->name, p->name_length, &given));
        if (given)
            return bo_jinja_fail(run, BO_INVALID, "the argument '%.*s' of a macro is given twice", (int)p->name_length,
                                 p->name);
        return bo_jinja_assign(run, p->name, p->name_length, value);
    }
    return bo_jinja_fail(run, BO_INVALID, "a macro has no argument '%.*s'", (int)keyword->name_length, keyword->name);
}

/* Defaults are evaluated in the scope of the macro, in order, as Jinja2 does. */
static bo_status bind(bo_jinja_run *run, const bo_jinja_node *macro, const bo_jinja_arguments *arguments)
{
    size_t i = 0;
    for (const bo_jinja_node *p = macro->items; p && i < arguments->count && !arguments->names[i]; p = p->next, i++)
        BO_TRY(bo_jinja_assign(run, p->name, p->name_length, arguments->values[i]));
    if (i < arguments->count && !arguments->names[i])
        return bo_jinja_fail(run, BO_INVALID, "the macro '%.*s' takes fewer arguments", (int)macro->name_length,
                             macro->name);
    for (; i < arguments->count; i++) BO_TRY(bind_keyword(run, macro, arguments->names[i], arguments->values[i]));
    for (const bo_jinja_node *p = macro->items; p; p = p->next) {
        bo_jinja_value value = {.kind = BO_JINJA_UNDEFINED, .length = p->name_length, .text = p->name};
        bo_jinja_variable *given;
        BO_TRY(find_in(run, run->frame, p->name, p->name_length, &given));
        if (given) continue;
        if (p->first) BO_TRY(bo_jinja_evaluate(run, p->first, &value));
        BO_TRY(bo_jinja_assign(run, p->name, p->name_length, value));
    }
    return BO_OK;
}

static bo_status call_macro(bo_jinja_run *run, const bo_jinja_macro *macro, const bo_jinja_arguments *arguments,
                            bo_jinja_value *out)
{
    bo_jinja_frame *before = run->frame;
    BO_TRY(bo_jinja_open_frame(run, macro->frame));
    bo_status status = bind(run, macro->node, arguments);
    if (status == BO_OK) status = bo_jinja_capture(run, macro->node->body, out);
    run->frame = before;
    return status;
}

/* namespace(a=1) and dict(a=1). */
static bo_status make_dict(bo_jinja_run *run, bo_jinja_kind kind, const bo_jinja_arguments *arguments,
                           bo_jinja_value *out)
{
    BO_TRY(bo_jinja_dict_new(run, kind, out));
    for (size_t i = 0; i < arguments->count; i++) {
        const bo_jinja_node *name = arguments->names[i];
        const bo_jinja_value *value = &arguments->values[i];
        if (name) {
            if (kind == BO_JINJA_NAMESPACE) BO_TRY(check_namespace(run, name->name, name->name_length));
            BO_TRY(bo_jinja_dict_set(run, out->dict, bo_jinja_of_text(name->name, name->name_length), *value));
            continue;
        }
        if (i > 0 || value->kind != BO_JINJA_DICT)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "this argument of %s() is not supported",
                                 kind == BO_JINJA_NAMESPACE ? "namespace" : "dict");
        for (size_t j = 0; j < value->dict->count; j++)
            BO_TRY(bo_jinja_dict_set(run, out->dict, value->dict->keys[j], value->dict->values[j]));
    }
    return BO_OK;
}

static bo_status call_value(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_arguments *arguments,
                            bo_jinja_value *out)
{
    if (value->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, value);
    if (value->kind == BO_JINJA_MACRO) return call_macro(run, value->macro, arguments, out);
    if (value->kind != BO_JINJA_FUNCTION)
        return bo_jinja_fail(run, BO_INVALID, "%s cannot be called", bo_jinja_kind_name(value));
    const bo_jinja_filter *function = bo_jinja_find_function(value->text, value->length);
    if (function) return bo_jinja_apply(run, function, "function", value, arguments, out);
    const bool is_dict = value->length == 4; /* the other function is namespace */
    return make_dict(run, is_dict ? BO_JINJA_DICT : BO_JINJA_NAMESPACE, arguments, out);
}

static bo_status cycle(bo_jinja_run *run, const bo_jinja_loop *loop, const bo_jinja_arguments *arguments,
                       bo_jinja_value *out)
{
    if (arguments->count == 0) return bo_jinja_fail(run, BO_INVALID, "loop.cycle() needs arguments");
    *out = arguments->values[loop->index % arguments->count];
    return BO_OK;
}

static bo_status call_method(bo_jinja_run *run, const bo_jinja_node *method, const bo_jinja_arguments *arguments,
                             const bo_jinja_value *of, bo_jinja_value *out)
{
    bool known;
    bo_jinja_value value;
    if (of->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, of);
    if (of->kind == BO_JINJA_LOOP && is_name(method, "cycle")) return cycle(run, of->loop, arguments, out);
    if (of->kind == BO_JINJA_MARKUP) return refuse_method(run, method, of, true);
    const bo_jinja_filter *found = bo_jinja_find_method(of, method->name, method->name_length, &known);
    if (found) return bo_jinja_apply(run, found, "method", of, arguments, out);
    if (known) return refuse_method(run, method, of, true);
    BO_TRY(attribute_of(run, of, method, &value));
    return call_value(run, &value, arguments, out);
}

static bo_status evaluate_call(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_arguments arguments;
    bo_jinja_value of;
    const bool method = node->first->kind == BO_JINJA_ATTRIBUTE;
    BO_TRY(bo_jinja_evaluate(run, method ? node->first->first : node->first, &of));
    if (of.kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, &of);
    BO_TRY(evaluate_arguments(run, node->items, &arguments));
    run->line = node->line;
    return method ? call_method(run, node->first, &arguments, &of, out) : call_value(run, &of, &arguments, out);
}

static bo_status evaluate_filter(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_arguments arguments;
    bo_jinja_value of;
    const bool filter = node->kind == BO_JINJA_FILTER;
    if (!node->filter)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "the %s '%.*s' is not supported", filter ? "filter" : "test",
                             (int)(node->name_length < 80 ? node->name_length : 80), node->name);
    BO_TRY(bo_jinja_evaluate(run, node->first, &of));
    BO_TRY(evaluate_arguments(run, node->items, &arguments));
    run->line = node->line;
    if (of.kind == BO_JINJA_MARKUP && filter)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "the filter '%s' after 'safe' is not supported", node->filter->name);
    return bo_jinja_apply(run, node->filter, filter ? "filter" : "test", &of, &arguments, out);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static bo_status compare(bo_jinja_run *run, int sign, const bo_jinja_value *a, const bo_jinja_value *b, bool *out)
{
    int order;
    if (sign == BO_JINJA_IN || sign == BO_JINJA_NOT_IN) {
        BO_TRY(bo_jinja_contains(run, a, b, out));
        *out = *out == (sign == BO_JINJA_IN);
        return BO_OK;
    }
    if (sign == BO_JINJA_EQUAL || sign == BO_JINJA_UNEQUAL) {
        BO_TRY(bo_jinja_equal(run, a, b, out));
        *out = *out == (sign == BO_JINJA_EQUAL);
        return BO_OK;
    }
    BO_TRY(bo_jinja_order(run, a, b, &order));
    *out = sign == '<' ? order < 0 : sign == '>' ? order > 0 : sign == BO_JINJA_AT_MOST ? order <= 0 : order >= 0;
    return BO_OK;
}

static bo_status evaluate_compare(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_value left, right;
    bool holds = true;
    BO_TRY(bo_jinja_evaluate(run, node->first, &left));
    for (const bo_jinja_node *item = node->items; item && holds; item = item->next, left = right) {
        BO_TRY(bo_jinja_evaluate(run, item->first, &right));
        run->line = node->line;
        BO_TRY(compare(run, item->sign, &left, &right, &holds));
    }
    *out = bo_jinja_of_boolean(holds);
    return BO_OK;
}

static bo_status evaluate_sign(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    const bo_jinja_value zero = bo_jinja_of_whole(0);
    bo_jinja_value value;
    BO_TRY(bo_jinja_evaluate(run, node->first, &value));
    if (!bo_jinja_is_number(&value)) return bo_jinja_wrong_type(run, "a sign", "a number", &value);
    if (value.kind == BO_JINJA_FRACTION) {
        *out = value;
        if (node->kind == BO_JINJA_NEGATE) out->fraction = -value.fraction;
        return BO_OK;
    }
    return bo_jinja_arithmetic(run, node->kind == BO_JINJA_NEGATE ? '-' : '+', &zero, &value, out);
}

static bo_status evaluate_logic(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_evaluate(run, node->first, out));
    return bo_jinja_true(out) == (node->kind == BO_JINJA_AND) ? bo_jinja_evaluate(run, node->second, out) : BO_OK;
}

static bo_status evaluate_choice(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_value test;
    BO_TRY(bo_jinja_evaluate(run, node->second, &test));
    if (bo_jinja_true(&test)) return bo_jinja_evaluate(run, node->first, out);
    *out = bo_jinja_of_kind(BO_JINJA_UNDEFINED);
    return node->third ? bo_jinja_evaluate(run, node->third, out) : BO_OK;
}

static bo_status evaluate_list(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_list_new(run, node->kind == BO_JINJA_MAKE_LIST ? BO_JINJA_LIST : BO_JINJA_TUPLE, 0, out));
    for (const bo_jinja_node *item = node->items; item; item = item->next) {
        bo_jinja_value value;
        BO_TRY(bo_jinja_evaluate(run, item, &value));
        BO_TRY(bo_jinja_list_add(run, out->list, value));
    }
    return BO_OK;
}

static bo_status evaluate_dict(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_dict_new(run, BO_JINJA_DICT, out));
    for (const bo_jinja_node *item = node->items; item; item = item->next) {
        bo_jinja_value key, value;
        BO_TRY(bo_jinja_evaluate(run, item->first, &key));
        BO_TRY(bo_jinja_evaluate(run, item->second, &value));
        BO_TRY(bo_jinja_dict_set(run, out->dict, key, value));
    }
    return BO_OK;
}

static bo_status evaluate_pair(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_value a, b;
    BO_TRY(bo_jinja_evaluate(run, node->first, &a));
    BO_TRY(bo_jinja_evaluate(run, node->second, &b));
    run->line = node->line;
    return node->kind == BO_JINJA_ITEM ? item_of(run, &a, &b, out) : bo_jinja_arithmetic(run, node->sign, &a, &b, out);
}

static bo_status evaluate_kind(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    bo_jinja_value value;
    switch (node->kind) {
    case BO_JINJA_CONSTANT:
        *out = node->value;
        return BO_OK;
    case BO_JINJA_VARIABLE:
        return look_up(run, node, out);
    case BO_JINJA_MAKE_LIST:
    case BO_JINJA_MAKE_TUPLE:
        return evaluate_list(run, node, out);
    case BO_JINJA_MAKE_DICT:
        return evaluate_dict(run, node, out);
    case BO_JINJA_ATTRIBUTE:
        BO_TRY(bo_jinja_evaluate(run, node->first, &value));
        run->line = node->line;
        return attribute_of(run, &value, node, out);
    case BO_JINJA_ITEM:
    case BO_JINJA_ARITHMETIC:
        return evaluate_pair(run, node, out);
    case BO_JINJA_SLICE:
        return evaluate_slice(run, node, out);
    case BO_JINJA_CALL:
        return evaluate_call(run, node, out);
    case BO_JINJA_FILTER:
    case BO_JINJA_TEST:
        return evaluate_filter(run, node, out);
    case BO_JINJA_NOT:
        BO_TRY(bo_jinja_evaluate(run, node->first, &value));
        *out = bo_jinja_of_boolean(!bo_jinja_true(&value));
        return BO_OK;
    case BO_JINJA_NEGATE:
    case BO_JINJA_KEEP_SIGN:
        return evaluate_sign(run, node, out);
    case BO_JINJA_COMPARE:
        return evaluate_compare(run, node, out);
    case BO_JINJA_AND:
    case BO_JINJA_OR:
        return evaluate_logic(run, node, out);
    default:
        return evaluate_choice(run, node, out);
    }
}

bo_status bo_jinja_evaluate(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out)
{
    const int depth = run->depth++;
    run->line = node->line;
    if (depth >= 2 * BO_JINJA_DEPTH)
        return bo_jinja_fail(run, BO_INVALID, "calls are nested more than %d deep", 2 * BO_JINJA_DEPTH);
    BO_TRY(bo_jinja_charge(run, 0));
    BO_TRY(evaluate_kind(run, node, out));
    run->depth = depth;
    return BO_OK;
}
