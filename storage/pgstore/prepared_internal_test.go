package pgstore

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// TestEveryCommitIsPrepared: what each commit sends in a direct session is prepared there.
func TestEveryCommitIsPrepared(t *testing.T) {
	t.Parallel()
	q := newTexts("")
	q.begins(true, "on")
	sent := append(q.write([]*engine.Entry{{Key: "gone"}, {Key: "new", Stored: make([]byte, engine.RecordHead)}}),
		q.beginUpdate[0], q.notify("channel", nil), q.tallied(tallyPrefix+"a", "1 1", "2 1"), statement{sql: "COMMIT"})
	for _, s := range sent {
		if !slices.ContainsFunc(q.prepares(), func(p statement) bool { return p.sql == s.sql && slices.Equal(p.types, s.types) }) {
			t.Errorf("not prepared: %s", s.sql)
		}
	}
}
