package safexml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

var declared = regexp.MustCompile(`^<\?xml\s+version\s*=\s*["']1\.0["'](?:\s+encoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["'])?(?:\s+standalone\s*=\s*["'](?:yes|no)["'])?\s*\?>`)

// toUTF8 returns metadata in UTF-8 and without a declaration, which has said all that it can: XML editors and mail
// programs save metadata in other encodings.
func toUTF8(raw []byte) ([]byte, error) {
	raw, isWide, err := narrow(raw)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if isWide || !bytes.HasPrefix(raw, []byte("<?xml")) {
		if found := declared.Find(raw); isWide && found != nil {
			raw = raw[len(found):]
		}
		return raw, nil
	}
	found := declared.FindSubmatch(raw)
	if found == nil {
		return raw, nil // the scanner says why not
	}
	rest := raw[len(found[0]):]
	switch name := strings.ToLower(string(found[1])); name {
	case "", "utf-8", "utf8":
		return rest, nil
	case "us-ascii", "ascii", "iso-8859-1", "latin1":
		return charmap.ISO8859_1.NewDecoder().Bytes(rest)
	case "iso-8859-15":
		return charmap.ISO8859_15.NewDecoder().Bytes(rest)
	case "windows-1252":
		return charmap.Windows1252.NewDecoder().Bytes(rest)
	default:
		return nil, fmt.Errorf("it is encoded as %s: save it as UTF-8", name)
	}
}

// narrow returns UTF-16 as UTF-8.
func narrow(raw []byte) (out []byte, isWide bool, err error) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(raw, []byte{0xff, 0xfe}) || bytes.HasPrefix(raw, []byte{'<', 0}):
		order = binary.LittleEndian
	case bytes.HasPrefix(raw, []byte{0xfe, 0xff}) || bytes.HasPrefix(raw, []byte{0, '<'}):
		order = binary.BigEndian
	default:
		return raw, false, nil
	}
	if len(raw)%2 != 0 || bytes.HasPrefix(raw, []byte{'<', 0, 0}) || bytes.HasPrefix(raw, []byte{0xff, 0xfe, 0, 0}) {
		return nil, false, errors.New("it is encoded as damaged UTF-16 or as UTF-32: save it as UTF-8")
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	return []byte(string(utf16.Decode(units))), true, nil
}
