// Seeking to an item sets a bit in the item's flags after reading its header. Two threads
// that read one item set different bits of the same byte, and one of the bits is lost; the
// data is then decompressed from the wrong offset.
// Fixed: flags are read and written under the archive's lock.

#include <cstdio>
#include <mutex>
#include <thread>

enum : unsigned char { HAS_DATA_OFFSET = 1, IS_SYNTHETIC = 2 };

struct ZipItem {
    unsigned char flags = 0;
    int offset = 30;
};

static ZipItem item;
static std::mutex archive_lock;

__attribute__((noinline)) static unsigned char read_header(unsigned char flags, unsigned char bit)
{
    return flags | bit;
}

__attribute__((noinline)) static void seek_to_item(unsigned char bit)
{
    std::lock_guard<std::mutex> hold(archive_lock);
    unsigned char flags = item.flags;
    flags = read_header(flags, bit);
    item.flags = flags;
}

int main()
{
    std::thread a([] { seek_to_item(HAS_DATA_OFFSET); });
    std::thread b([] { seek_to_item(IS_SYNTHETIC); });
    a.join();
    b.join();
    if (item.flags != (HAS_DATA_OFFSET | IS_SYNTHETIC)) {
        std::fprintf(stderr, "item flags are %d, expected 3\n", item.flags);
        return 1;
    }
    std::printf("item flags %d, data at %d\n", item.flags, item.offset);
    return 0;
}
