/* Addresses, and the text of requests. */
#include "client.h"
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

/* Splits the text after http:// into the host name, the port and a prefix. Returns false if it has another form. */
static bool divide(const char *text, char name[256], char port[8], load_address *out)
{
    const size_t host = strcspn(text, "/");
    const char *path = text + host, *colon = NULL;
    for (size_t i = 0; i < host; i++)
        if (text[i] == ':') colon = text + i;
    if (text[0] == '[' && text[host - 1] == ']') colon = NULL; /* an IPv6 address without a port */
    size_t length = colon ? (size_t)(colon - text) : host, digits = colon ? host - length - 1 : 0;
    if (length == 0 || host >= sizeof out->host || digits > 5 || (colon && digits == 0)) return false;
    snprintf(out->host, sizeof out->host, "%.*s", (int)host, text);
    snprintf(port, 8, "%.*s", (int)(colon ? digits : 2), colon ? colon + 1 : "80");
    if (port[strspn(port, "0123456789")]) return false;
    if (text[0] == '[') {
        if (text[length - 1] != ']') return false;
        text++, length -= 2;
    }
    snprintf(name, 256, "%.*s", (int)length, text);
    size_t prefix = strlen(path);
    while (prefix && path[prefix - 1] == '/') prefix--;
    if (prefix >= 3 && strncmp(path + prefix - 3, "/v1", 3) == 0) prefix -= 3;
    if (prefix >= sizeof out->prefix || strcspn(path, " \r\n\t") < prefix) return false;
    snprintf(out->prefix, sizeof out->prefix, "%.*s", (int)prefix, path);
    return true;
}

bool load_address_read(cli_session *session, const char *url, load_address *out)
{
    static const char scheme[] = "http://";
    char name[256], port[8];
    *out = (load_address){0};
    if (strncmp(url, scheme, sizeof scheme - 1) != 0 || !divide(url + sizeof scheme - 1, name, port, out)) {
        cli_fail(session, "expected an address such as http://127.0.0.1:8080, found '%s'", url);
        return false;
    }
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const int error = getaddrinfo(name, port, &hints, &found);
    if (error != 0 || !found || found->ai_addrlen > sizeof out->socket) {
        cli_fail(session, "%s: there is no such host: %s", url, gai_strerror(error));
        return false;
    }
    memcpy(&out->socket, found->ai_addr, found->ai_addrlen);
    out->length = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

load_request load_request_make(const load_address *address, const char *method, const char *path, const char *body)
{
    load_text text = {0};
    load_text_add(&text, method, strlen(method));
    load_text_add(&text, " ", 1);
    load_text_add(&text, address->prefix, strlen(address->prefix));
    load_text_add(&text, path, strlen(path));
    load_text_print(&text, " HTTP/1.1\r\nHost: ");
    load_text_add(&text, address->host, strlen(address->host));
    load_text_print(&text, "\r\n");
    if (body) load_text_print(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    load_text_print(&text, "\r\n");
    if (body) load_text_add(&text, body, strlen(body));
    return (load_request){text.bytes, text.length};
}
