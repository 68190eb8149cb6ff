package session

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// From records where the session was used from.
func (r *Record) From(o audit.Origin) { r.Address, r.Agent = o.ClientIP, KeptAgent(o.UserAgent) }

// maxAgent bounds the bytes that are kept of a User-Agent header.
const maxAgent = 256

// KeptAgent returns what is kept of a User-Agent header: one line of at most 256 bytes.
func KeptAgent(header string) string {
	s := audit.Clean(header)
	return strings.ToValidUTF8(s[:min(len(s), maxAgent)], "")
}
