package usage

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	amounts = storage.NewTable[amountRecord]("usage")   // day, client, site -> requests
	heads   = storage.NewTable[headRecord]("usage_day") // day -> how many records it has
)

type amountRecord struct {
	Client  string `cbor:"c"`
	Site    string `cbor:"s"`
	Passed  int64  `cbor:"p,omitempty"`
	Limited int64  `cbor:"l,omitempty"` // refused by a limit or quota
}

type headRecord struct {
	Pairs int `cbor:"n"`
}

const (
	day        = 24 * time.Hour
	daySeconds = 24 * 60 * 60
	kept       = 750 * day // from the start of a day on
)

func startOf(d int64) time.Time { return time.Unix(d*daySeconds, 0).UTC() }

func expiry(d int64) time.Time { return startOf(d).Add(kept) }

func dayKey(d int64) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(d))) //nolint:gosec // far beyond any date
}

// dayOf is the day in a key.
func dayOf(text string) int64 { return int64(binary.BigEndian.Uint32([]byte(text[:4]))) }

func (k key) text() string { return dayKey(k.day) + storage.Key(k.client, k.site) }

// trim bounds a name.
func trim(s string) string {
	if s = audit.Clean(s); len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}
