package linuxpkg

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// SBOM is the bill of materials of a binary, in CycloneDX's JSON: the modules that the linker put into it, and the
// standard library. Its serial number and date follow from the tree, so that two builds have the same bytes.
func (b *Build) SBOM(binary string) (file string, data []byte, err error) {
	g, err := bin.NewGenerator(binary, bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop()), bin.WithVersionOverride(b.Version))
	if err != nil {
		return "", nil, fmt.Errorf("bill of materials: %w", err)
	}
	bom, err := g.Generate()
	if err != nil {
		return "", nil, fmt.Errorf("bill of materials: %w", err)
	}
	if bom.Metadata == nil {
		bom.Metadata = &cdx.Metadata{}
	}
	bom.Metadata.Timestamp = b.Time.UTC().Format(time.RFC3339)
	bom.SerialNumber = ""
	encode := func() ([]byte, error) {
		var out bytes.Buffer
		err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
		return out.Bytes(), err
	}
	bare, err := encode()
	if err != nil {
		return "", nil, fmt.Errorf("bill of materials: %w", err)
	}
	sum := sha256.Sum256(bare)
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).URN()
	data, err = encode()
	return fmt.Sprintf("%s_%s_linux_%s.cdx.json", name, b.Version, b.Arch), data, err
}
