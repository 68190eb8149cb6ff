// Package keytab reads which principals a keytab, the key file of a Kerberos service, has keys for.
package keytab

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// ErrFormat says that the bytes are no keytab.
var ErrFormat = coded.New("keytab_format", "it is not a keytab of version 5.2, as `ktadd` of kadmin and `ktpass` of Windows write it: it must be copied as binary data")

// Principals returns whose keys a keytab has, such as HTTP/auth.example.com@EXAMPLE.COM, each once. A keytab has at
// least one key. The errors repeat nothing of it.
func Principals(raw []byte) ([]string, error) {
	var list []string
	seen := map[string]bool{}
	s := cryptobyte.String(raw)
	if !s.Skip(2) || raw[0] != 5 || raw[1] != 2 {
		return nil, ErrFormat
	}
	for !s.Empty() {
		var size uint32
		if !s.ReadUint32(&size) {
			return nil, ErrFormat
		}
		if size == 0 { // the end of a file that was made longer than its content
			if strings.Trim(string(s), "\x00") != "" {
				return nil, ErrFormat
			}
			break
		}
		if int32(size) < 0 { //nolint:gosec // a negative size is that of a key that was removed
			if !s.Skip(int(-int64(int32(size)))) { //nolint:gosec // likewise
				return nil, ErrFormat
			}
			continue
		}
		var entry []byte
		if !s.ReadBytes(&entry, int(size)) {
			return nil, ErrFormat
		}
		name, ok := principal(entry)
		if !ok {
			return nil, ErrFormat
		}
		if !seen[name] {
			seen[name] = true
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("it has no keys")
	}
	return list, nil
}

// principal reads an entry: the number of the parts of a name, the realm, the parts, the type of the name, the time,
// the version of the key in a byte, the cipher, and the key. What follows is the version in four bytes, or nothing.
func principal(entry cryptobyte.String) (string, bool) {
	var count, cipher uint16
	var realm, key cryptobyte.String
	if !entry.ReadUint16(&count) || count == 0 || !entry.ReadUint16LengthPrefixed(&realm) || !isText(realm) {
		return "", false
	}
	var parts []string
	for range count {
		var part cryptobyte.String
		if !entry.ReadUint16LengthPrefixed(&part) || !isText(part) {
			return "", false
		}
		parts = append(parts, string(part))
	}
	if !entry.Skip(4+4+1) || !entry.ReadUint16(&cipher) || !entry.ReadUint16LengthPrefixed(&key) || key.Empty() {
		return "", false
	}
	return strings.Join(parts, "/") + "@" + string(realm), true
}

func isText(s []byte) bool {
	return len(s) > 0 && utf8.Valid(s) && !strings.ContainsFunc(string(s), unicode.IsControl)
}
