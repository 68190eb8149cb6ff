package personindex

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/storage"
)

// exported is the number of persons that one transaction of an export reads.
const exported = 500

// Export writes the persons that a query selects as a CSV file, page by page, whatever their number. Persons who change
// meanwhile are there as they were or as they are.
func Export(ctx context.Context, store storage.Store, persons *person.Service, q Query, w io.Writer) error {
	q.Limit = exported
	var out *csvfile.Writer
	for {
		var page Answer
		err := store.View(ctx, func(tx storage.Tx) (err error) {
			page, err = Find(tx, persons, q)
			return err
		})
		if err != nil {
			return err
		}
		if out == nil { // the query is a good one
			out = csvfile.New(w, "id", "username", "state", "partition", "name", "given_name", "family_name", "email", "email_verified",
				"groups", "created_at", "last_sign_in")
		}
		for _, f := range page.Persons {
			out.Row(f.ID, f.Username, string(f.State), f.Partition, f.Name, f.GivenName, f.FamilyName, f.Email, strconv.FormatBool(f.EmailVerified),
				strings.Join(f.Groups, " "), moment(f.CreatedAt), moment(f.Seen))
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if q.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
