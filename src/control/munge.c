/* MUNGE's credentials: encrypted and signed with the key of the cluster, which the daemons alone
 * have; a daemon opens one for the user it names and for nobody else, once, and says who closed it.
 * So the secret is safe from other users wherever the credential is seen; not from whoever has the
 * cluster's key, who is every user already.
 *
 * The library is opened when it is first asked for, not linked: a binary starts where it is absent.
 */
#include "control/munge.h"

#include <dlfcn.h>
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define MUNGE_CALLS(CALL)                                                                          \
    CALL(munge_ctx_create)                                                                         \
    CALL(munge_ctx_destroy)                                                                        \
    CALL(munge_ctx_set)                                                                            \
    CALL(munge_encode)                                                                             \
    CALL(munge_decode)                                                                             \
    CALL(munge_strerror)

static struct {
    bool loaded;
#define CALL(name) __typeof__(&name) name;
    MUNGE_CALLS(CALL)
#undef CALL
} munge;

static bool find_call(void *library, const char *name, void *out) {
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

/* Stays open until the process ends. */
static bool load(char why[CONTROL_SEAL_WHY]) {
    if (munge.loaded) return true;
    void *library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, CONTROL_SEAL_WHY, "%.200s", dlerror());
        return false;
    }
    bool all = true;
#define CALL(name) all = all && find_call(library, #name, &munge.name);
    MUNGE_CALLS(CALL)
#undef CALL
    if (!all) snprintf(why, CONTROL_SEAL_WHY, "libmunge.so.2 lacks a function: it is too old");
    munge.loaded = all;
    return all;
}

/* Encrypted whatever the daemon's default is, and for this user alone. */
static munge_ctx_t new_context(const struct control_seal *seal) {
    munge_ctx_t context = munge.munge_ctx_create();
    if (!context) return NULL;
    bool good =
        munge.munge_ctx_set(context, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128) ==
            EMUNGE_SUCCESS &&
        munge.munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, geteuid()) == EMUNGE_SUCCESS &&
        (!seal->place[0] ||
         munge.munge_ctx_set(context, MUNGE_OPT_SOCKET, seal->place) == EMUNGE_SUCCESS);
    if (good) return context;
    munge.munge_ctx_destroy(context);
    return NULL;
}

static munge_err_t encode(const struct control_seal *seal, const void *data, size_t bytes,
                          char **text) {
    munge_ctx_t context = new_context(seal);
    if (!context) return EMUNGE_NO_MEMORY;
    munge_err_t error = munge.munge_encode(text, context, data, (int)bytes);
    munge.munge_ctx_destroy(context);
    return error;
}

static enum status close_seal(const struct control_seal *seal, const void *data, size_t bytes,
                              char **text) {
    munge_err_t error = encode(seal, data, bytes, text);
    if (error == EMUNGE_SUCCESS) return STATUS_OK;
    return fail(STATUS_USAGE, "MUNGE does not seal the job's key: %s", munge.munge_strerror(error));
}

/* The daemon gives what is inside of some credentials that it refuses, too. */
static bool open_seal(const struct control_seal *seal, const char *text, char **data, size_t *bytes,
                      char why[CONTROL_SEAL_WHY]) {
    void *inside = NULL;
    int count = 0;
    uid_t user = 0;
    gid_t group;
    munge_ctx_t context = new_context(seal);
    munge_err_t error = context ? munge.munge_decode(text, context, &inside, &count, &user, &group)
                                : EMUNGE_NO_MEMORY;
    if (context) munge.munge_ctx_destroy(context);
    bool ours = error == EMUNGE_SUCCESS && user == geteuid() && inside && count > 0;
    if (ours) {
        *data = inside;
        *bytes = (size_t)count;
        return true;
    }
    if (error == EMUNGE_SUCCESS)
        snprintf(why, CONTROL_SEAL_WHY, "user %u closed it, this process runs as user %u",
                 (unsigned)user, (unsigned)geteuid());
    else
        snprintf(why, CONTROL_SEAL_WHY, "%s", munge.munge_strerror(error));
    if (inside && count > 0) explicit_bzero(inside, (size_t)count);
    free(inside);
    return false;
}

bool control_munge_try(const char *place, struct control_seal *out, char why[CONTROL_SEAL_WHY]) {
    struct control_seal seal = {.close = close_seal, .open = open_seal};
    char *text = NULL;
    if (strlen(place) >= sizeof seal.place) {
        snprintf(why, CONTROL_SEAL_WHY, "the path of its socket is too long");
        return false;
    }
    snprintf(seal.place, sizeof seal.place, "%s", place);
    if (!load(why)) return false;
    munge_err_t error = encode(&seal, "", 0, &text);
    free(text);
    if (error == EMUNGE_SUCCESS)
        *out = seal;
    else
        snprintf(why, CONTROL_SEAL_WHY, "its daemon does not answer%s%.150s: %s",
                 *place ? " at " : "", place, munge.munge_strerror(error));
    return error == EMUNGE_SUCCESS;
}
