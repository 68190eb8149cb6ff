package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Import is the state of an import of persons. What was uploaded is sealed, and deleted when the import ends.
type Import struct {
	Kind    string `cbor:"1,keyasint"`           // of importer.Kinds
	Update  bool   `cbor:"2,keyasint,omitempty"` // change persons who exist already
	Pieces  []int  `cbor:"3,keyasint"`           // of each file
	Parts   int    `cbor:"4,keyasint"`
	Size    int64  `cbor:"5,keyasint"`
	Skipped int    `cbor:"6,keyasint,omitempty"` // entries that are not persons
	Problem string `cbor:"7,keyasint,omitempty"` // why the file cannot be read. Empty: it can
	// Checked is the expected outcome, Came the actual one.
	Checked ImportCount `cbor:"8,keyasint"`
	Came    ImportCount `cbor:"9,keyasint"`
	Until   time.Time   `cbor:"10,keyasint"` // when what was uploaded is deleted
}

// ImportCount are the numbers of persons who are imported, and who are not.
type ImportCount struct {
	Created int `cbor:"1,keyasint,omitempty"`
	Updated int `cbor:"2,keyasint,omitempty"`
	Exists  int `cbor:"3,keyasint,omitempty"`
	Failed  int `cbor:"4,keyasint,omitempty"`
}

func (c *ImportCount) add(status string) {
	switch status {
	case ldapmigration.Created:
		c.Created++
	case ldapmigration.Updated:
		c.Updated++
	case ldapmigration.Exists:
		c.Exists++
	default:
		c.Failed++
	}
}

// workOnImport does the next part of an import.
func (s *Service) workOnImport(ctx context.Context, id string, rec jobRecord) (more bool, err error) {
	switch rec.State {
	case JobChecking:
		err = s.failure(ctx, id, JobChecking, s.checkImport(ctx, id, &rec))
		return err == nil, err
	case JobRunning:
		more, err = s.runPart(ctx, id, &rec)
		early := err != nil
		err = s.failure(ctx, id, JobRunning, err)
		return more || early, err
	case JobWaiting: // for someone
		return false, s.failure(ctx, id, JobWaiting,
			s.changeImport(ctx, id, JobWaiting, func(tx storage.Tx, _ *jobRecord) error { return openJobs.Delete(tx, id) }))
	}
	return s.clearImport(ctx, id)
}

// failure returns what has gone wrong with the work on an import. That someone has stopped it has not, and nor has that
// who asked for it has lost the right to it: that ends it.
func (s *Service) failure(ctx context.Context, id string, state JobState, err error) error {
	lost := new(Refusal)
	switch {
	case errors.Is(err, errStopped):
		return nil
	case !errors.As(err, &lost):
		return err
	}
	return s.failure(ctx, id, state, s.changeImport(ctx, id, state, func(_ storage.Tx, now *jobRecord) error {
		now.State = JobRefused
		return nil
	}))
}

// batch is a part of an import while it is read.
type batch struct {
	rows []ImportRow
	raw  []json.RawMessage
	at   []int // of rows: where the persons of raw stand
	size int
}

// add puts a row into the batch, with its person if there is one to hand over.
func (b *batch) add(row ImportRow, raw []byte) {
	if raw != nil {
		b.raw, b.at, b.size = append(b.raw, raw), append(b.at, len(b.rows)), b.size+len(raw)
	}
	b.rows = append(b.rows, row)
}

// checkImport reads the files and notes what would become of each person. A node that takes over starts over.
func (s *Service) checkImport(ctx context.Context, id string, rec *jobRecord) error {
	im := rec.Import
	im.Parts, im.Checked, im.Skipped = 0, ImportCount{}, 0
	var files []importer.File
	read := new(pieces)
	for i, all := range im.Pieces {
		files = append(files, func() (io.Reader, error) {
			read = &pieces{s: s, ctx: ctx, id: id, file: i, all: all}
			return read, nil
		})
	}
	var in importer.Reader
	err := recovered(func() (err error) {
		in, err = importer.Open(im.Kind, files...)
		return err
	})
	if err != nil {
		return s.failImport(ctx, id, rec, read, err)
	}
	var b batch
	for {
		var p importer.Person
		line := 0
		err := recovered(func() (err error) {
			p, line, err = in.Next()
			return err
		})
		wrong := new(importer.LineError)
		switch {
		case errors.Is(err, io.EOF):
			if skipper, ok := in.(importer.Skipper); ok {
				im.Skipped = skipper.Skipped()
			}
			if err := s.checkPart(ctx, id, rec, &b); err != nil {
				return err
			}
			return s.changeImport(ctx, id, JobChecking, func(_ storage.Tx, now *jobRecord) error {
				now.State, now.Import = JobWaiting, im
				return nil
			})
		case errors.As(err, &wrong):
			b.add(ImportRow{Line: wrong.Line, Status: ldapmigration.Failed, Problem: wrong.Problem, Unread: true}, nil)
		case err != nil: // where the next person begins is unknown
			if err := s.checkPart(ctx, id, rec, &b); err != nil {
				return err
			}
			return s.failImport(ctx, id, rec, read, err)
		default:
			row, raw, err := s.rowOf(line, &p)
			if err != nil {
				return err
			}
			if len(b.raw) > 0 && b.size+len(raw) > importPiece {
				if err := s.checkPart(ctx, id, rec, &b); err != nil {
					return err
				}
			}
			b.add(row, raw)
		}
		if len(b.rows) >= importRows {
			if err := s.checkPart(ctx, id, rec, &b); err != nil {
				return err
			}
		}
	}
}

// recovered turns a panic over a file into an error: the file is someone's, and the server goes on.
func recovered(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = errors.New("the file has content that no export has")
		}
	}()
	return read()
}

// rowOf returns the row of a person and the person as JSON, which is nil for one who has too much.
func (s *Service) rowOf(line int, p *importer.Person) (row ImportRow, raw []byte, err error) {
	groups := p.Groups[:0:0]
	for _, g := range p.Groups {
		if s.GivesRole(g) {
			p.Notes = append(p.Notes, "the group "+strconv.Quote(g)+" gives a role in the console and does not come: roles are given one by one")
			continue
		}
		groups = append(groups, g)
	}
	p.Groups = groups
	row = ImportRow{Line: line, Username: short(p.Username), Notes: p.Notes[:min(len(p.Notes), importRows)]}
	for i, n := range row.Notes {
		row.Notes[i] = short(n)
	}
	if raw, err = json.Marshal(p); err != nil {
		return row, nil, err
	}
	if len(raw) > importPiece || json.Unmarshal(raw, new(ldapmigration.Person)) != nil {
		row.Status, row.Problem, row.Unread, raw = ldapmigration.Failed, "the person has more than can be stored", true, nil
	}
	return row, raw, nil
}

// short bounds what a report repeats of a file.
func short(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if r := []rune(text); len(r) > person.MaxName {
		return string(r[:person.MaxName]) + "…"
	}
	return text
}

// checkPart notes what would become of the persons of a batch, and empties it.
func (s *Service) checkPart(ctx context.Context, id string, rec *jobRecord, b *batch) error {
	if len(b.rows) == 0 {
		return nil
	}
	im := rec.Import
	results, err := s.migrate(ctx, rec, b.raw, true, s.allowImport(id, rec, JobChecking))
	if err != nil {
		return err
	}
	for i, r := range results {
		row := &b.rows[b.at[i]]
		row.Status, row.Problem, row.ID = r.Status, r.Error, r.ID
		row.Notes = append(row.Notes, r.Notes[:min(len(r.Notes), max(0, importRows-len(row.Notes)))]...)
	}
	for i := range b.rows {
		im.Checked.add(b.rows[i].Status)
	}
	key := partKey(id, im.Parts)
	plain, err := json.Marshal(b.raw)
	if err != nil {
		return err
	}
	sealed, err := s.Keyring.Seal(importPurpose(key), plain)
	if err != nil {
		return err
	}
	im.Parts++
	rows := b.rows
	*b = batch{}
	return s.changeImport(ctx, id, JobChecking, func(tx storage.Tx, now *jobRecord) error {
		now.Import = im
		if err := importParts.Put(tx, key, slices.Clone(rows), now.Created.Add(jobKept)); err != nil {
			return err
		}
		return importWhom.Put(tx, key, sealedRecord{sealed}, im.Until)
	})
}

// migrate hands persons to the import that the command uses.
func (s *Service) migrate(ctx context.Context, rec *jobRecord, raw []json.RawMessage, check bool,
	allow func(storage.Tx, string, []string) error,
) ([]ldapmigration.Result, error) {
	list := make([]ldapmigration.Person, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &list[i]); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	how := ldapmigration.How{Update: rec.Import.Update, Check: check, KeepSignIn: true, Allow: allow}
	return s.Identity.Migration.Import(ctx, list, how, rec.actor(func(tx storage.Tx) error { return allow(tx, "", nil) }))
}

// allowImport lets an import go on while it is in its state, and who has asked for it may change the person.
func (s *Service) allowImport(id string, rec *jobRecord, state JobState) func(storage.Tx, string, []string) error {
	return func(tx storage.Tx, who string, groups []string) error {
		if now, found, err := jobs.Find(tx, id); err != nil || !found || now.State != state {
			return cmp.Or(err, errStopped)
		}
		if slices.ContainsFunc(groups, s.GivesRole) {
			return &ldapmigration.RefusedError{Problem: "a group of the person gives a role in the console"}
		}
		err := s.Allow(tx, rec.By, JobImport, who)
		if why := new(Refusal); errors.As(err, &why) && !why.Over {
			return &ldapmigration.RefusedError{Problem: "exists and is you, or has a role that only an owner changes: nothing is changed"}
		}
		return err
	}
}

// changeImport changes an import that is in a state, or returns errStopped.
func (s *Service) changeImport(ctx context.Context, id string, state JobState, fn func(storage.Tx, *jobRecord) error) error {
	at := s.Recorder.Now().UTC()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := jobs.Find(tx, id)
		if err != nil || !found || rec.State != state {
			return cmp.Or(err, errStopped)
		}
		if err := fn(tx, &rec); err != nil {
			return err
		}
		if rec.Changed = at; rec.State.Ended() {
			return endJob(tx, id, rec, rec.State, at)
		}
		return jobs.Put(tx, id, rec, rec.Created.Add(jobKept))
	})
}

// failImport ends an import whose file cannot be read.
func (s *Service) failImport(ctx context.Context, id string, rec *jobRecord, read *pieces, why error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case read.err != nil && !errors.Is(read.err, ErrGone):
		return read.err
	}
	rec.Import.Problem = short(why.Error())
	return s.changeImport(ctx, id, rec.State, func(_ storage.Tx, now *jobRecord) error {
		now.State, now.Import = JobFailed, rec.Import
		return nil
	})
}

// RunImport starts the import of a file whose report someone has looked at. Error: ErrGone
func (s *Service) RunImport(ctx context.Context, id string, requester Requester, by audit.Actor) error {
	e, err := s.Recorder.New(jobStarted, by.Origin)
	if err != nil {
		return err
	}
	at := s.Recorder.Now()
	err = s.changeImport(ctx, id, JobWaiting, func(tx storage.Tx, now *jobRecord) error {
		if now.Import == nil || !at.Before(now.Import.Until) {
			return ErrGone
		}
		now.State, now.By = JobRunning, requester
		if err := openJobs.Put(tx, id, struct{}{}, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", JobImport))
	})
	if errors.Is(err, errStopped) {
		return ErrGone
	}
	return err
}

// runPart has the persons of the next part come.
func (s *Service) runPart(ctx context.Context, id string, rec *jobRecord) (more bool, err error) {
	im := rec.Import
	if rec.At == im.Parts {
		return true, s.changeImport(ctx, id, JobRunning, func(_ storage.Tx, now *jobRecord) error {
			now.State = JobDone
			return nil
		})
	}
	key := partKey(id, rec.At)
	plain, err := s.opened(ctx, importWhom, key)
	if errors.Is(err, ErrGone) {
		return true, s.failImport(ctx, id, rec, new(pieces), errors.New("the day is over for which the file was kept: upload it again"))
	}
	var raw []json.RawMessage
	if err == nil {
		err = json.Unmarshal(plain, &raw)
	}
	if err != nil {
		return false, err
	}
	results, err := s.migrate(ctx, rec, raw, false, s.allowImport(id, rec, JobRunning))
	if err != nil {
		return false, fmt.Errorf("import %s: %w", id, err)
	}
	err = s.changeImport(ctx, id, JobRunning, func(tx storage.Tx, now *jobRecord) error {
		if now.At != rec.At { // another worker was faster
			return errStopped
		}
		rows, err := importParts.Get(tx, key)
		if err != nil {
			return err
		}
		next := 0
		for i := range rows {
			if r := &rows[i]; !r.Unread && next < len(results) {
				r.Status, r.Problem, r.ID = results[next].Status, results[next].Error, results[next].ID
				next++
			}
			rows[i].Came = true
			now.Import.Came.add(rows[i].Status)
		}
		c := now.Import.Came
		now.Done, now.Left, now.At = c.Created+c.Updated, c.Exists+c.Failed, now.At+1
		if err := importWhom.Delete(tx, key); err != nil {
			return err
		}
		return importParts.Put(tx, key, rows, now.Created.Add(jobKept))
	})
	return err == nil, err
}
