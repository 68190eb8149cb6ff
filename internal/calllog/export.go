package calllog

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Export writes the calls that a search selects as a CSV file, newest first, in several transactions.
func (s Search) Export(ctx context.Context, store storage.Store, w io.Writer) error {
	s.Limit = perBlock
	out := csvfile.New(w, "time", "reference", "site", "method", "path", "verdict", "rule", "status", "received", "sent", "seconds",
		"person_id", "username", "client_id", "app_password", "ip_address", "user_agent")
	for {
		var found []Found
		var next audit.Cursor
		err := store.View(ctx, func(tx storage.Tx) (err error) {
			found, next, err = s.Find(tx)
			return err
		})
		if err != nil {
			return err
		}
		for i := range found {
			c := &found[i]
			out.Row(c.At.Format(time.RFC3339Nano), c.Ref, c.Site, c.Method, c.Path, c.Verdict, c.Rule, number(int64(c.Status)),
				number(c.Received), number(c.Sent), strconv.FormatFloat(c.Took.Seconds(), 'f', 6, 64), c.PersonID, c.Username, c.ClientID,
				c.AppPassword, c.IP, c.UserAgent)
		}
		if err := out.Flush(); err != nil || len(next) == 0 {
			return err
		}
		s.Behind = next
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
