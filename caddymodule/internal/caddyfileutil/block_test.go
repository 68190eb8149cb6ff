package caddyfileutil_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// TestParserAndReferenceAgree: an option that the reference shows and the parser does not read, or the other way round,
// does not pass as an unknown word.
func TestParserAndReferenceAgree(t *testing.T) {
	t.Parallel()
	var allow, more []string
	for _, tt := range []struct {
		read caddyfileutil.Subdirectives
		fine bool
	}{
		{caddyfileutil.Subdirectives{"allow": caddyfileutil.Values(&allow, nil)}, true},
		{caddyfileutil.Subdirectives{}, false},
		{caddyfileutil.Subdirectives{"allow": caddyfileutil.Values(&allow, nil), "deny": caddyfileutil.Values(&more, nil)}, false},
	} {
		d := caddyfile.NewTestDispenser("outbound {\n\tallow 10.0.0.0/8\n}")
		d.Next()
		err := caddyfileutil.ReadBlock(d, "outbound", &reference.Outbound, tt.read)
		if fine := err == nil; fine != tt.fine || !fine && !strings.Contains(err.Error(), "package reference lists [allow]") {
			t.Errorf("ReadBlock with %d readers: %v", len(tt.read), err)
		}
	}
}
