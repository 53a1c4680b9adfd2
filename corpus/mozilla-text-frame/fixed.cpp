// Reflow moves a text frame to the tail of its buffer by storing offset and length. Painting
// in between takes the new offset with the old length and runs past the buffer.
// Fixed: both sides take the frame's lock.

#include <cassert>
#include <cstdio>
#include <mutex>
#include <thread>

struct TextFrame {
    int offset = 0;
    int length = 16;
    std::mutex lock;
};

static const char text[17] = "selvedge weaving";
static TextFrame frame;
static int shown;
static int dirty;

__attribute__((noinline)) static void mark_dirty()
{
    dirty++;
}

__attribute__((noinline)) static void reflow()
{
    std::lock_guard<std::mutex> hold(frame.lock);
    frame.offset = 12;
    mark_dirty();
    frame.length = 4;
}

__attribute__((noinline)) static void paint()
{
    std::lock_guard<std::mutex> hold(frame.lock);
    int start = frame.offset;
    int count = frame.length;
    assert(start + count <= 16);
    for (int i = 0; i < count; i++)
        shown += text[start + i] != 0;
}

int main()
{
    std::thread layout([] { reflow(); });
    std::thread view([] { paint(); });
    layout.join();
    view.join();
    std::printf("painted %s\n", shown == 16 || shown == 4 ? "a whole text" : "nonsense");
    return 0;
}
