/* Stretto as a library: the public header. Everything else under src/ may change between versions. */
#ifndef STRETTO_H
#define STRETTO_H

#ifdef __cplusplus
extern "C" {
#endif

#define STRETTO_VERSION_MAJOR 0
#define STRETTO_VERSION_MINOR 1
#define STRETTO_VERSION_PATCH 0

/* What the shared library exports; all other names are hidden. */
#define STRETTO_API __attribute__((visibility("default")))

/* Local. The version of the library that is linked, as "0.1.0"; static. */
STRETTO_API const char *stretto_version(void);

#ifdef __cplusplus
}
#endif
#endif
