/* bcryptprimitives.dll for Wine 8, which has none: the runtime of Go takes its random bytes from ProcessPrng. For tests only. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(void *buffer, ULONG length); /* advapi32's RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *buffer, SIZE_T length)
{
	const SIZE_T most = 0x10000;
	while (length > 0) {
		ULONG n = (ULONG)(length < most ? length : most);
		if (!SystemFunction036(buffer, n))
			return FALSE;
		buffer += n;
		length -= n;
	}
	return TRUE;
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, LPVOID reserved)
{
	(void)module, (void)reason, (void)reserved;
	return TRUE;
}
