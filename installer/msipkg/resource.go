package msipkg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf16"
)

// Offsets and sizes of a PE file, as Microsoft's "PE Format" numbers them.
const (
	peOffset        = 0x3c // of the offset of the signature
	coffSize        = 24   // signature and COFF header
	coffSections    = 6    // behind the signature's start
	coffOptional    = 20
	magic64         = 0x20b
	optInitialized  = 8
	optSectionAlign = 32
	optFileAlign    = 36
	optImageSize    = 56
	optHeadersSize  = 60
	optDirectories  = 112
	directoryRsrc   = 2
	sectionSize     = 40
	maxAlign        = 1 << 16    // bytes; of files and, on our processors, of sections
	rsrcReadable    = 0x40000040 // initialized data, readable
	typeVersion     = 16
	languageEnglish = 0x409
	codepageUnicode = 1200
)

var le = binary.LittleEndian

// Stamp returns a 64-bit program with a version resource, which Windows shows as its properties, and which Windows Installer
// and inventories compare. The program is one that Go's linker made: without a resource, with room for a section's header.
func Stamp(program []byte, v Version, file, what string) ([]byte, error) {
	refuse := func(why string) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s cannot be given a version: %s", ErrPlan, file, why)
	}
	at := func(offset, n int) []byte {
		if offset < 0 || offset+n > len(program) {
			return make([]byte, n)
		}
		return program[offset : offset+n]
	}
	pe := int(le.Uint32(at(peOffset, 4)))
	if !bytes.Equal(at(pe, 4), []byte("PE\x00\x00")) || le.Uint16(at(pe+coffSize, 2)) != magic64 {
		return refuse("it is no 64-bit program for Windows")
	}
	program = slices.Clone(program)
	count, optional := int(le.Uint16(at(pe+coffSections, 2))), pe+coffSize
	table := optional + int(le.Uint16(at(pe+coffOptional, 2)))
	sectionAlign, fileAlign := le.Uint32(at(optional+optSectionAlign, 4)), le.Uint32(at(optional+optFileAlign, 4))
	header := table + count*sectionSize
	directory := optional + optDirectories + 8*directoryRsrc
	switch {
	case sectionAlign == 0 || sectionAlign > maxAlign || fileAlign == 0 || fileAlign > maxAlign || count == 0 || len(program) > math.MaxInt32:
		return refuse("its header does not read")
	case le.Uint32(at(directory, 4)) != 0:
		return refuse("it has resources already")
	case header+sectionSize > int(le.Uint32(at(optional+optHeadersSize, 4))) || !bytes.Equal(at(header, sectionSize), make([]byte, sectionSize)):
		return refuse("its header has no room for another section")
	}
	end := uint32(0)
	for i := range count {
		s := at(table+i*sectionSize, sectionSize)
		end = max(end, le.Uint32(s[12:])+max(le.Uint32(s[8:]), le.Uint32(s[16:])))
	}
	address := alignUp(end, sectionAlign)
	data := resources(address, versionInfo(v, file, what))
	pad := func(align uint32) {
		program = append(program, make([]byte, int(alignUp(uint32(len(program)), align))-len(program))...)
	}
	pad(fileAlign)
	start := uint32(len(program))
	program = append(program, data...)
	pad(fileAlign)

	s := at(header, sectionSize)
	copy(s, ".rsrc")
	le.PutUint32(s[8:], uint32(len(data)))
	le.PutUint32(s[12:], address)
	le.PutUint32(s[16:], uint32(len(program))-start)
	le.PutUint32(s[20:], start)
	le.PutUint32(s[36:], rsrcReadable)
	le.PutUint16(at(pe+coffSections, 2), uint16(count+1))
	le.PutUint32(at(optional+optImageSize, 4), alignUp(address+uint32(len(data)), sectionAlign))
	initialized := at(optional+optInitialized, 4)
	le.PutUint32(initialized, le.Uint32(initialized)+uint32(len(program))-start)
	le.PutUint32(at(directory, 4), address)
	le.PutUint32(at(directory+4, 4), uint32(len(data)))
	return program, nil
}

func alignUp(n, to uint32) uint32 { return (n + to - 1) / to * to }

// resources is a section with one resource: three folders, for type, name and language, then the entry that says where.
func resources(address uint32, version []byte) []byte {
	const folder, entry = 16 + 8, 16
	var out []byte
	for i, id := range []uint32{typeVersion, 1, languageEnglish} {
		next := uint32((i + 1) * folder)
		if i < 2 {
			next |= 1 << 31 // a folder
		}
		out = append(out, make([]byte, 12)...)
		out = le.AppendUint16(out, 0) // by name
		out = le.AppendUint16(out, 1) // by number
		out = le.AppendUint32(out, id)
		out = le.AppendUint32(out, next)
	}
	out = le.AppendUint32(out, address+3*folder+entry)
	out = le.AppendUint32(out, uint32(len(version)))
	out = le.AppendUint32(out, 0) // the code page is said in the version itself
	out = le.AppendUint32(out, 0)
	return append(out, version...)
}

// versionInfo is a VS_VERSIONINFO.
func versionInfo(v Version, file, what string) []byte {
	numbers := func(out []byte) []byte {
		out = le.AppendUint32(out, uint32(v.File[0])<<16|uint32(v.File[1]))
		return le.AppendUint32(out, uint32(v.File[2])<<16|uint32(v.File[3]))
	}
	fixed := le.AppendUint32(nil, 0xfeef04bd)
	fixed = le.AppendUint32(fixed, 0x10000) // of the structure
	fixed = numbers(numbers(fixed))         // of the file, of the product
	for _, n := range []uint32{0x3f, 0, 0x40004, 1, 0, 0, 0} {
		fixed = le.AppendUint32(fixed, n) // mask, flags, Windows NT, an application, no kind, no date
	}
	var texts [][]byte
	for _, t := range [][2]string{
		{"CompanyName", manufacturer}, {"FileDescription", what}, {"FileVersion", v.Described}, {"InternalName", name},
		{"LegalCopyright", copyright}, {"OriginalFilename", file}, {"ProductName", name}, {"ProductVersion", v.Described},
	} {
		value := wide(t[1])
		texts = append(texts, block(t[0], 1, len(value)/2, value))
	}
	language := le.AppendUint16(le.AppendUint16(nil, languageEnglish), codepageUnicode)
	strings := block("StringFileInfo", 1, 0, nil, block(fmt.Sprintf("%04X%04X", languageEnglish, codepageUnicode), 1, 0, nil, texts...))
	return block("VS_VERSION_INFO", 0, len(fixed), fixed, strings, block("VarFileInfo", 1, 0, nil, block("Translation", 0, len(language), language)))
}

// block is one node: its length, its value's length, whether that is text, its key, the value, and what is below it.
func block(key string, text uint16, length int, value []byte, below ...[]byte) []byte {
	out := make([]byte, 6)
	pad := func() {
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
	}
	out = append(out, wide(key)...)
	pad()
	out = append(out, value...)
	for _, b := range below {
		pad()
		out = append(out, b...)
	}
	le.PutUint16(out, uint16(len(out)))
	le.PutUint16(out[2:], uint16(length))
	le.PutUint16(out[4:], text)
	return out
}

// wide is UTF-16 with a zero behind it.
func wide(s string) []byte {
	var out []byte
	for _, c := range append(utf16.Encode([]rune(s)), 0) {
		out = le.AppendUint16(out, c)
	}
	return out
}
