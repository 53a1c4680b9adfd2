// Reflow moves a text frame to the tail of its buffer by storing offset and length. Painting
// in between takes the new offset with the old length and runs past the buffer.

#include <cassert>
#include <cstdio>
#include <mutex>
#include <thread>

struct TextFrame {
    int offset = 0;
    int length = 16;
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
    frame.offset = 12; //~ guilty
    mark_dirty();
    frame.length = 4; //~ guilty
}

__attribute__((noinline)) static void paint()
{
    int start = frame.offset; //~ guilty
    int count = frame.length; //~ guilty
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
