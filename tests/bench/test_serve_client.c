/* The parsers of the client of `bochner bench serve`: responses and events do not depend on the division of their
 * bytes, and malformed input is refused. */
#include "testing.h"
#include "bench/serve/response.h"

/* The output of a parser. */
typedef struct received {
    load_response response;
    load_events events;
    load_text text; /* the body; of a stream, each event in brackets */
    size_t used;
} received;

static void on_event(void *owner, const char *bytes, size_t count)
{
    received *h = owner;
    assert_int_equal(bytes[count], 0);
    load_text_add(&h->text, "[", 1);
    load_text_add(&h->text, bytes, count);
    load_text_add(&h->text, "]", 1);
}

static void on_body(void *owner, const char *bytes, size_t count)
{
    received *h = owner;
    assert_true(count > 0);
    if (h->response.events)
        load_events_read(&h->events, bytes, count);
    else
        load_text_add(&h->text, bytes, count);
}

static void begin(received *h)
{
    *h = (received){0};
    load_response_begin(&h->response, on_body, h);
    load_events_begin(&h->events, on_event, h);
    load_text_add(&h->text, "", 0);
}

static void end(received *h)
{
    load_events_free(&h->events);
    free(h->text.bytes);
}

/* A copy without a NUL, so that AddressSanitizer notices a read beyond the end. */
static void read_piece(received *h, const char *bytes, size_t count)
{
    char *copy = malloc(count ? count : 1);
    memcpy(copy, bytes, count);
    h->used += load_response_read(&h->response, copy, count);
    free(copy);
}

typedef struct example {
    const char *text;
    int status;
    load_stage stage; /* after the text */
    bool close;
    const char *body;
    size_t rest; /* bytes after the response */
} example;

static const example good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, LOAD_DONE, false, "hello", 0},
    {"HTTP/1.1 200 OK\r\ncontent-length:\t 2 \r\nConnection: close\r\n\r\nokrest", 200, LOAD_DONE, true, "ok", 4},
    {"HTTP/1.1 404 \nContent-Length: 0\n\nmore", 404, LOAD_DONE, false, "", 4},
    {"HTTP/1.1 204\r\n\r\n", 204, LOAD_DONE, false, "", 0},
    {"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 1\r\n\r\n!", 201, LOAD_DONE, false, "!",
     0},
    {"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, LOAD_UNTIL_CLOSE, true, "until the end", 0},
    {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, LOAD_DONE, false, "x", 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;name=\"v\"\r\n,\r\nA "
     "\r\n0123456789\r\n0\r\n\r\n",
     200, LOAD_DONE, false, "hello,0123456789", 0},
    {"HTTP/1.1 500 No\r\nTransfer-Encoding: CHUNKED\r\nContent-Length: 3\r\n\r\n00a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\nT: "
     "x\r\nU: y\r\n\r\nHTTP",
     500, LOAD_DONE, false, "\r\n\r\n\r\n\r\n\r\n", 4},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
     "8\r\ndata: {\"\r\n4\r\na\":1\r\n3\r\n}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
     200, LOAD_DONE, false, "[{\"a\":1}][[DONE]]", 0},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\ndata: 2\n", 200, LOAD_UNTIL_CLOSE, true,
     "[1]", 0},
};

static void check(const example *e, const received *h)
{
    assert_int_equal(h->response.stage, e->stage);
    assert_int_equal(h->response.status, e->status);
    assert_int_equal(h->response.close, e->close);
    assert_string_equal(h->text.bytes, e->body);
    assert_int_equal(h->used + e->rest, strlen(e->text));
}

static void any_division_is_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const example *e = &good[i];
        const size_t length = strlen(e->text);
        received h;
        for (size_t at = 0; at <= length; at++) {
            begin(&h);
            read_piece(&h, e->text, at);
            read_piece(&h, e->text + at, length - at);
            check(e, &h);
            end(&h);
        }
        begin(&h);
        for (size_t at = 0; at < length; at++) read_piece(&h, e->text + at, 1);
        check(e, &h);
        load_response_end(&h.response);
        assert_int_equal(h.response.stage, LOAD_DONE);
        end(&h);
    }
}

/* A connection that is closed earlier leaves a broken response, unless the body ends when the connection is closed. */
static void early_ends_are_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (size_t at = 0; at < strlen(good[i].text) - good[i].rest; at++) {
            received h;
            begin(&h);
            read_piece(&h, good[i].text, at);
            const bool open_end = h.response.stage == LOAD_UNTIL_CLOSE;
            load_response_end(&h.response);
            assert_int_equal(h.response.stage, open_end ? LOAD_DONE : LOAD_BROKEN);
            assert_true((h.response.wrong != NULL) == !open_end);
            end(&h);
        }
}

static void malformed_responses_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"HTTP/2 200 OK\r\n", "first line"},
        {"\r\n", "first line"},
        {"HTTP/1.1 20 OK\r\n", "first line"},
        {"HTTP/1.1 2000\r\n", "first line"},
        {"HTTP/1.1 099 Low\r\n", "below 100"},
        {"<html>\n", "first line"},
        {"HTTP/1.1 200 OK\r\nno colon\r\n", "no name"},
        {"HTTP/1.1 200 OK\r\n: x\r\n", "no name"},
        {"HTTP/1.1 200 OK\r\nName : x\r\n", "no name"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: \r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000000\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "Content-Length"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", "chunked"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "no size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "no size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5z\r\n", "no size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "no size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", "no size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer than its size"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 0; at <= strlen(bad[i][0]); at++) {
            received h;
            begin(&h);
            read_piece(&h, bad[i][0], at);
            read_piece(&h, bad[i][0] + at, strlen(bad[i][0]) - at);
            if (h.response.stage != LOAD_BROKEN) fail_msg("accepted: %s", bad[i][0]);
            if (!strstr(h.response.wrong, bad[i][1])) fail_msg("%s: %s", bad[i][0], h.response.wrong);
            end(&h);
        }
}

static void lines_are_bounded(void **state)
{
    (void)state;
    received h;
    char line[LOAD_LINE + 8];
    memset(line, 'a', sizeof line);
    begin(&h);
    read_piece(&h, "HTTP/1.1 200 OK\r\nA:", 19);
    read_piece(&h, line, LOAD_LINE - 4); /* with "A:" one byte less than the capacity with the NUL, and one for \r */
    assert_int_equal(h.response.stage, LOAD_HEADERS);
    read_piece(&h, "\r\n\r\n", 4);
    assert_int_equal(h.response.stage, LOAD_UNTIL_CLOSE);
    end(&h);
    begin(&h);
    read_piece(&h, line, sizeof line);
    assert_int_equal(h.response.stage, LOAD_BROKEN);
    assert_int_equal(h.used, LOAD_LINE);
    end(&h);
    begin(&h);
    read_piece(&h, "HTTP/1.1 200 OK\r\nA: \0b\r\n", 24);
    assert_int_equal(h.response.stage, LOAD_BROKEN);
    assert_non_null(strstr(h.response.wrong, "NUL"));
    end(&h);
}

static void events_in_any_division(void **state)
{
    (void)state;
    static const char *const streams[][2] = {
        {"data: a\n\ndata: b\r\n\r\ndata: c\r\r", "[a][b][c]"},
        {"data:a\ndata:  b\ndata\n\n", "[a\n b\n]"},
        {"data: a\r\ndata: b\r\n\r\n", "[a\nb]"},
        {": comment\n\n\nid: 1\nevent: x\ndata: y\nretry: 5\n\n", "[y]"},
        {"data:\n\ndata\n\n", "[][]"},
        {"dat: a\ndataa: b\n data: c\nDATA: d\n\n", ""},
        {"data: never ended\n", ""},
        {"data: {\"text\": \"\xe2\x82\xac\"}\r\n\r\ndata: [DONE]\r\n\r\n", "[{\"text\": \"\xe2\x82\xac\"}][[DONE]]"},
        {"\r\n\n\r\r\ndata: 1\r\n\n", "[1]"},
        {"data: 1\r\n\rdata: 2\n\r\n", "[1][2]"},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const char *text = streams[i][0];
        const size_t length = strlen(text);
        for (size_t step = 0; step <= length; step++) { /* 0: byte by byte */
            received h;
            begin(&h);
            for (size_t at = 0; step == 0 && at < length; at++) load_events_read(&h.events, text + at, 1);
            if (step) load_events_read(&h.events, text, step);
            if (step) load_events_read(&h.events, text + step, length - step);
            assert_string_equal(h.text.bytes, streams[i][1]);
            assert_false(h.events.broken);
            end(&h);
        }
    }
}

static void events_are_bounded(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    char *piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    for (int lines = 0; lines < 2; lines++) { /* a line that is too long, and many lines of one event */
        received h;
        begin(&h);
        load_events_read(&h.events, "data:", 5);
        for (int i = 0; i < LOAD_EVENT_BYTES / PIECE + 1; i++) {
            load_events_read(&h.events, piece, PIECE);
            if (lines) load_events_read(&h.events, "\ndata:", 6);
        }
        assert_true(h.events.broken);
        assert_true(h.events.data.length <= LOAD_EVENT_BYTES + PIECE &&
                    h.events.line.length <= LOAD_EVENT_BYTES + PIECE);
        load_events_read(&h.events, "\n\ndata: 1\n\n", 11);
        assert_string_equal(h.text.bytes, "");
        end(&h);
    }
    free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_division_is_the_same),        cmocka_unit_test(early_ends_are_noticed),
        cmocka_unit_test(malformed_responses_are_refused), cmocka_unit_test(lines_are_bounded),
        cmocka_unit_test(events_in_any_division),          cmocka_unit_test(events_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
