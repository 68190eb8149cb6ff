package admin

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	importRows  = 50 // persons of a part
	importLooks = 40 // parts that one page of a report looks at
)

// ImportRow is the outcome for one person of a file.
type ImportRow struct {
	Line     int      `cbor:"1,keyasint"`
	Username string   `cbor:"2,keyasint,omitempty"`
	Status   string   `cbor:"3,keyasint"`           // of migration.Result
	Problem  string   `cbor:"4,keyasint,omitempty"` // of a failed one
	Notes    []string `cbor:"5,keyasint,omitempty"` // what of the person does not come
	ID       string   `cbor:"6,keyasint,omitempty"`
	Unread   bool     `cbor:"7,keyasint,omitempty"` // there is no person to hand over
	Came     bool     `cbor:"8,keyasint,omitempty"` // it has happened. Before that it would
}

// remarkable reports whether the person does not come, or not whole.
func (r *ImportRow) remarkable() bool { return r.Problem != "" || len(r.Notes) > 0 }

// ImportRows returns rows of the report after a place, and what continues it. partly leaves only the persons who fail
// or lose something.
func (s *Service) ImportRows(tx storage.Tx, id string, j *Import, after string, partly bool) (rows []ImportRow, next string, err error) {
	from, _ := strconv.Atoi(after)
	part := max(0, from)
	for looks := 0; part < j.Parts && len(rows) < importRows && looks < importLooks; looks, part = looks+1, part+1 {
		list, found, err := importParts.Find(tx, partKey(id, part))
		if err != nil {
			return nil, "", err
		}
		if !found {
			continue
		}
		for _, r := range list {
			if !partly || r.remarkable() {
				rows = append(rows, r)
			}
		}
	}
	if part < j.Parts {
		next = strconv.Itoa(part)
	}
	return rows, next, nil
}

// ExportImport writes the whole report as a CSV file.
func (s *Service) ExportImport(ctx context.Context, id string, j *Import, w io.Writer) error {
	out := csvfile.New(w, "line", "username", "outcome", "person_id", "problem", "does_not_come")
	for after := "0"; after != ""; {
		var rows []ImportRow
		var next string
		err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
			rows, next, err = s.ImportRows(tx, id, j, after, false)
			return err
		})
		if err != nil {
			return err
		}
		after = next
		for _, r := range rows {
			out.Row(strconv.Itoa(r.Line), r.Username, r.Status, r.ID, r.Problem, strings.Join(r.Notes, "; "))
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}
