/* What a cache serves, and what not, with each access as long as it is aligned: walks that take no library, and no
 * system call but the last. Compiled with -O1 -nostdlib -static -mno-sse, for x86-64. */
typedef unsigned long word;
static word data[1 << 15];
static word next = 88172645463325252ul;
static word number(void)
{
	next ^= next << 13;
	next ^= next >> 7;
	next ^= next << 17;
	return next;
}
void _start(void)
{
	word sum = 0;
	for (int round = 0; round < 3; round++)
		for (int index = 0; index < 1 << 12; index++)
			sum += data[index];
	for (int index = 0; index < 20000; index++) {
		word at = number();
		if (at >> 63)
			data[at & 32767] = sum;
		else
			sum += data[at & 32767];
	}
	for (int index = 0; index < 1 << 15; index += 24)
		data[index] = sum;
	__asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
	__builtin_unreachable();
}
