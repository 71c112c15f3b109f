package macpkg

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Mach-O's load commands that are looked for.
const (
	loadCodeSignature = 0x1d
	loadBuildVersion  = 0x32
	platformMacOS     = 1
)

// slice is a processor that a universal program may hold.
type slice struct {
	cpu   macho.Cpu
	name  string // as Distribution's hostArchitectures spells it
	align uint32 // power of two: the page of that processor's macOS
}

// slices in the order in which lipo writes them.
var slicesKnown = []slice{
	{macho.CpuAmd64, "x86_64", 12},
	{macho.CpuArm64, "arm64", 14},
}

// Universal puts programs for several processors into one file, which macOS picks from. Each slice keeps its bytes, and
// with them its signature.
func Universal(thin ...[]byte) ([]byte, error) {
	type part struct {
		slice
		sub  uint32
		data []byte
	}
	var parts []part
	for _, data := range thin {
		f, err := macho.NewFile(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%w: no Mach-O program: %w", ErrPlan, err)
		}
		at := slices.IndexFunc(slicesKnown, func(s slice) bool { return s.cpu == f.Cpu })
		switch {
		case f.Type != macho.TypeExec:
			return nil, fmt.Errorf("%w: the Mach-O is of type %v, not a program", ErrPlan, f.Type)
		case at < 0:
			return nil, fmt.Errorf("%w: the program is for %v: amd64 and arm64 are packed", ErrPlan, f.Cpu)
		case slices.ContainsFunc(parts, func(p part) bool { return p.cpu == f.Cpu }):
			return nil, fmt.Errorf("%w: two programs for %v", ErrPlan, f.Cpu)
		}
		parts = append(parts, part{slicesKnown[at], f.SubCpu, data})
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: no program was given", ErrPlan)
	}
	slices.SortFunc(parts, func(a, b part) int {
		order := func(p part) int {
			return slices.IndexFunc(slicesKnown, func(s slice) bool { return s.cpu == p.cpu })
		}
		return order(a) - order(b)
	})
	out := binary.BigEndian.AppendUint32(nil, macho.MagicFat)
	out = binary.BigEndian.AppendUint32(out, uint32(len(parts)))
	offset := uint64(8 + 20*len(parts))
	var starts []uint64
	for _, p := range parts {
		offset = (offset + 1<<p.align - 1) >> p.align << p.align
		if offset+uint64(len(p.data)) > 1<<32-1 {
			return nil, fmt.Errorf("%w: the programs together are over 4 GiB", ErrPlan)
		}
		for _, v := range []uint32{uint32(p.cpu), p.sub, uint32(offset), uint32(len(p.data)), p.align} {
			out = binary.BigEndian.AppendUint32(out, v)
		}
		starts = append(starts, offset)
		offset += uint64(len(p.data))
	}
	for i, p := range parts {
		out = append(out, make([]byte, starts[i]-uint64(len(out)))...)
		out = append(out, p.data...)
	}
	return out, nil
}

// program is what a package has to know of the program in it.
type program struct {
	archs   []string // as hostArchitectures spells them
	minimum string   // the oldest macOS that every slice starts on, as 12.0
}

// inspect reads a universal program, and refuses one that macOS would not start: the kernel ends a program for arm64 that
// nobody signed.
func inspect(universal []byte) (program, error) {
	fat, err := macho.NewFatFile(bytes.NewReader(universal))
	if err != nil {
		return program{}, fmt.Errorf("%w: no universal program: %w", ErrPlan, err)
	}
	var out program
	var newest uint32
	for _, a := range fat.Arches {
		at := slices.IndexFunc(slicesKnown, func(s slice) bool { return s.cpu == a.Cpu })
		if at < 0 || a.Type != macho.TypeExec {
			return program{}, fmt.Errorf("%w: a slice of type %v for %v: programs for amd64 and arm64 are packed", ErrPlan, a.Type, a.Cpu)
		}
		signed, minimum := loads(a.File)
		if minimum == 0 {
			return program{}, fmt.Errorf("%w: the slice for %v says no oldest macOS", ErrPlan, a.Cpu)
		}
		if a.Cpu == macho.CpuArm64 && !signed {
			return program{}, fmt.Errorf("%w: the slice for arm64 is not signed, and macOS would end it: build it with Go's own linker", ErrPlan)
		}
		newest = max(newest, minimum)
		out.archs = append(out.archs, slicesKnown[at].name)
	}
	out.minimum = fmt.Sprintf("%d.%d", newest>>16, newest>>8&0xff)
	return out, nil
}

func (p program) hostArchitectures() string { return strings.Join(p.archs, ",") }

// loads finds whether a slice is signed and the oldest macOS it starts on (xxxx.yy.zz in 16, 8 and 8 bits), or 0.
func loads(f *macho.File) (signed bool, minimum uint32) {
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) < 16 {
			continue
		}
		switch f.ByteOrder.Uint32(raw) {
		case loadCodeSignature:
			signed = true
		case loadBuildVersion:
			if f.ByteOrder.Uint32(raw[8:]) == platformMacOS {
				minimum = f.ByteOrder.Uint32(raw[12:])
			}
		}
	}
	return signed, minimum
}
