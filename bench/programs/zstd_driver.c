/* Compresses a file with two zstd workers, decompresses the result and compares.
 *
 *   zstd_driver FILE WORKERS
 *
 * Linked with the zstd library sources, all built by the same compiler command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"

enum { LEVEL = 3 };

static void *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    long end = ftell(file);
    rewind(file);
    char *bytes = end > 0 ? malloc((size_t)end) : NULL;
    *size = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    fclose(file);
    return bytes && *size == (size_t)end ? bytes : NULL;
}

/* Prints what failed; true when `code` is an error. */
static int failed(const char *what, size_t code)
{
    if (ZSTD_isError(code))
        fprintf(stderr, "zstd_driver: %s: %s\n", what, ZSTD_getErrorName(code));
    return ZSTD_isError(code) != 0;
}

int main(int argc, char **argv)
{
    size_t size = 0;
    int workers = argc > 2 ? atoi(argv[2]) : 0;
    if (argc < 3 || workers < 1) {
        fprintf(stderr, "usage: zstd_driver FILE WORKERS\n");
        return 2;
    }
    void *input = load(argv[1], &size);
    size_t bound = ZSTD_compressBound(size);
    void *packed = malloc(bound), *unpacked = malloc(size + 1);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (!input || !packed || !unpacked || !context) {
        fprintf(stderr, "zstd_driver: cannot read the file or no memory\n");
        return 3;
    }
    if (failed("level", ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL))
        || failed("workers", ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, workers))
        || failed("checksum", ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)))
        return 1;
    size_t length = ZSTD_compress2(context, packed, bound, input, size);
    if (failed("compress", length))
        return 1;
    size_t back = ZSTD_decompress(unpacked, size + 1, packed, length);
    if (failed("decompress", back) || back != size || memcmp(input, unpacked, size) != 0)
        return 1;
    printf("ok zstd %zu %zu\n", size, length);
    ZSTD_freeCCtx(context);
    free(input);
    free(packed);
    free(unpacked);
    return 0;
}
