package session_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

func TestLongAgentIsCut(t *testing.T) {
	t.Parallel()
	var rec session.Record
	rec.From(audit.Origin{UserAgent: strings.Repeat("é", 10_000) + "\r\n"})
	if got := rec.Agent; len(got) > 256 || strings.ContainsAny(got, "\r\n") {
		t.Errorf("%d bytes of a long header are kept, want at most 256 on one line", len(got))
	}
}
