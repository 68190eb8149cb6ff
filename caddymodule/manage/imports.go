package manage

import (
	"bytes"
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

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/migration"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personfile"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/sheet"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// MaxImport is how many bytes the files of an import have together at most, and maxRead those of a format that is
	// read as a whole, and takes many times its size in memory.
	MaxImport = 16 << 20
	maxRead   = 2 << 20

	importKept  = 24 * time.Hour // what was uploaded, at most
	importPiece = 256 << 10      // bytes of a piece of a file, and of the persons of a part
	importRows  = 50             // persons of a part
	importLooks = 40             // parts that one page of a report looks at
	cleared     = 100            // records that one transaction deletes
)

// Import is what is known of an import of persons. What was uploaded is sealed, and deleted when the import ends.
type Import struct {
	Kind    string `cbor:"1,keyasint"`           // of personfile.Kinds
	Update  bool   `cbor:"2,keyasint,omitempty"` // change persons who exist already
	Pieces  []int  `cbor:"3,keyasint"`           // of each file
	Parts   int    `cbor:"4,keyasint"`
	Size    int64  `cbor:"5,keyasint"`
	Skipped int    `cbor:"6,keyasint,omitempty"` // entries that are not persons
	Problem string `cbor:"7,keyasint,omitempty"` // why the file cannot be read. Empty: it can
	// Checked is what would become of the persons, Came what has become of them.
	Checked ImportCount `cbor:"8,keyasint"`
	Came    ImportCount `cbor:"9,keyasint"`
	Until   time.Time   `cbor:"10,keyasint"` // when what was uploaded is deleted
}

// ImportCount is how many persons come, and how many do not.
type ImportCount struct {
	Created int `cbor:"1,keyasint,omitempty"`
	Updated int `cbor:"2,keyasint,omitempty"`
	Exists  int `cbor:"3,keyasint,omitempty"`
	Failed  int `cbor:"4,keyasint,omitempty"`
}

func (c *ImportCount) add(status string) {
	switch status {
	case migration.Created:
		c.Created++
	case migration.Updated:
		c.Updated++
	case migration.Exists:
		c.Exists++
	default:
		c.Failed++
	}
}

// ImportRow is what becomes of one person of a file.
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

// remarkable tells whether the person does not come, or not whole.
func (r *ImportRow) remarkable() bool { return r.Problem != "" || len(r.Notes) > 0 }

// What is wrong with an upload.
var (
	ErrImportKind  = errors.New("manage: the kind of the export is not known")
	ErrImportFiles = errors.New("manage: the kind of the export has other files")
	ErrImportLarge = errors.New("manage: the file is too large")
)

// NewImport is an upload. Next returns one file after the other, and io.EOF.
type NewImport struct {
	Kind   string
	Update bool
	By     Requester
	Next   func() (io.Reader, error)
}

// StartImport stores what is uploaded, sealed and piece by piece, and has it read: nobody comes before RunImport.
func (s *Service) StartImport(ctx context.Context, n NewImport) (id string, err error) {
	most := personfile.Files(n.Kind)
	if most == 0 {
		return "", ErrImportKind
	}
	u, err := uuid.NewV7FromReader(s.Recorder.Random)
	if err != nil {
		return "", err
	}
	id = u.String()
	if err := s.keepUpload(ctx, id, n, most); err != nil {
		for more := true; more; {
			more, _ = s.clearImport(ctx, id) // what fails here is deleted after a day
		}
		return "", err
	}
	return id, nil
}

// keepUpload stores an upload and the job that reads it.
func (s *Service) keepUpload(ctx context.Context, id string, n NewImport, most int) error {
	now := s.Recorder.Now().UTC()
	im := &Import{Kind: n.Kind, Update: n.Update, Until: now.Add(importKept)}
	for {
		in, err := n.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.keepFile(ctx, id, im, in, most); err != nil {
			return err
		}
	}
	switch {
	case len(im.Pieces) == 0:
		return ErrImportFiles
	case n.Kind == personfile.Authelia || n.Kind == personfile.Dex:
		if im.Size > maxRead {
			return ErrImportLarge
		}
	}
	rec := jobRecord{Kind: JobImport, By: n.By, State: JobChecking, Created: now, Changed: now, Import: im}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.Allow(tx, n.By, JobImport, ""); err != nil {
			return err
		}
		if err := jobs.Create(tx, id, rec, now.Add(jobKept)); err != nil {
			return err
		}
		return openJobs.Put(tx, id, struct{}{}, time.Time{})
	})
}

// keepFile stores a file. Browsers send an empty one for a field without a file: it does not count.
func (s *Service) keepFile(ctx context.Context, id string, im *Import, in io.Reader, most int) error {
	piece := make([]byte, importPiece)
	for pieces := 0; ; pieces++ {
		n, err := io.ReadFull(in, piece)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if n == 0 {
			return nil
		}
		if pieces == 0 {
			if len(im.Pieces) == most {
				return ErrImportFiles
			}
			im.Pieces = append(im.Pieces, 0)
		}
		if im.Size += int64(n); im.Size > MaxImport {
			return ErrImportLarge
		}
		file := len(im.Pieces) - 1
		if err := s.keepSealed(ctx, importFiles, pieceKey(id, file, pieces), piece[:n], im.Until); err != nil {
			return err
		}
		if im.Pieces[file]++; last {
			return nil
		}
	}
}

func pieceKey(id string, file, piece int) string {
	return storage.Key(id, strconv.Itoa(file), fmt.Sprintf("%06d", piece))
}

func partKey(id string, part int) string { return storage.Key(id, fmt.Sprintf("%06d", part)) }

func importPurpose(key string) string { return "manage_import:" + key }

func (s *Service) keepSealed(ctx context.Context, table storage.Table[sealedRecord], key string, plain []byte, until time.Time) error {
	sealed, err := s.Keyring.Seal(importPurpose(key), plain)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error { return table.Put(tx, key, sealedRecord{sealed}, until) })
}

// opened returns what was sealed. ErrGone: it is deleted, or its key is.
func (s *Service) opened(ctx context.Context, table storage.Table[sealedRecord], key string) ([]byte, error) {
	var rec sealedRecord
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, err = table.Get(tx, key)
		return err
	})
	if err == nil {
		var plain []byte
		if plain, err = s.Keyring.Open(importPurpose(key), rec.Sealed); err == nil {
			return plain, nil
		}
		return nil, ErrGone
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrGone
	}
	return nil, err
}

// pieces reads a file that was uploaded.
type pieces struct {
	s    *Service
	ctx  context.Context //nolint:containedctx // a reader has no other way
	id   string
	file int
	next int
	all  int
	left []byte
	err  error // a failure of storage, which is not one of the file
}

// Read implements io.Reader.
func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		if p.next == p.all {
			return 0, io.EOF
		}
		p.left, p.err = p.s.opened(p.ctx, importFiles, pieceKey(p.id, p.file, p.next))
		if p.err != nil {
			return 0, p.err
		}
		p.next++
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// workOnImport does the next part of an import.
func (s *Service) workOnImport(ctx context.Context, id string, rec jobRecord) (more bool, err error) {
	switch rec.State {
	case JobChecking:
		err = s.over(ctx, id, JobChecking, s.checkImport(ctx, id, &rec))
		return err == nil, err
	case JobRunning:
		more, err = s.runPart(ctx, id, &rec)
		early := err != nil
		err = s.over(ctx, id, JobRunning, err)
		return more || early, err
	case JobWaiting: // for somebody
		return false, s.over(ctx, id, JobWaiting, s.changeImport(ctx, id, JobWaiting, func(tx storage.Tx, _ *jobRecord) error { return openJobs.Delete(tx, id) }))
	}
	return s.clearImport(ctx, id)
}

// over returns what has gone wrong with the work on an import. That somebody has stopped it has not, and nor has that
// who asked for it has lost the right to it: that ends it.
func (s *Service) over(ctx context.Context, id string, state JobState, err error) error {
	lost := new(Refusal)
	switch {
	case errors.Is(err, errStopped):
		return nil
	case !errors.As(err, &lost):
		return err
	}
	return s.over(ctx, id, state, s.changeImport(ctx, id, state, func(_ storage.Tx, now *jobRecord) error {
		now.State = JobRefused
		return nil
	}))
}

// clearImport deletes what was uploaded, and what of it waits.
func (s *Service) clearImport(ctx context.Context, id string) (more bool, err error) {
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		more = false
		for _, table := range []storage.Table[sealedRecord]{importFiles, importWhom} {
			var keys []string
			for e, err := range table.Scan(tx, storage.Range{Prefix: storage.Prefix(id), Limit: cleared}) {
				if err != nil {
					return err
				}
				keys = append(keys, e.Key)
			}
			for _, key := range keys {
				if err := table.Delete(tx, key); err != nil {
					return err
				}
			}
			more = more || len(keys) == cleared
		}
		if more {
			return nil
		}
		return openJobs.Delete(tx, id)
	})
	return more, err
}

// batch is a part of an import while it is read.
type batch struct {
	rows []ImportRow
	raw  []json.RawMessage
	at   []int // of rows: where the persons of raw stand
	size int
}

// checkImport reads the files and notes what would become of each person. A node that takes over begins anew.
func (s *Service) checkImport(ctx context.Context, id string, rec *jobRecord) error {
	im := rec.Import
	im.Parts, im.Checked, im.Skipped = 0, ImportCount{}, 0
	var files []personfile.File
	read := new(pieces)
	for i, all := range im.Pieces {
		files = append(files, func() (io.Reader, error) {
			read = &pieces{s: s, ctx: ctx, id: id, file: i, all: all}
			return read, nil
		})
	}
	var in personfile.Reader
	err := unharmed(func() (err error) {
		in, err = personfile.Open(im.Kind, files...)
		return err
	})
	if err != nil {
		return s.failImport(ctx, id, rec, read, err)
	}
	var b batch
	for {
		var p personfile.Person
		line := 0
		err := unharmed(func() (err error) {
			p, line, err = in.Next()
			return err
		})
		wrong := new(personfile.LineError)
		switch {
		case errors.Is(err, io.EOF):
			if skipper, ok := in.(personfile.Skipper); ok {
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
			b.rows = append(b.rows, ImportRow{Line: wrong.Line, Status: migration.Failed, Problem: wrong.Problem, Unread: true})
		case err != nil: // where the next person begins is unknown
			if err := s.checkPart(ctx, id, rec, &b); err != nil {
				return err
			}
			return s.failImport(ctx, id, rec, read, err)
		default:
			raw, err := s.take(&b, line, &p)
			if err != nil {
				return err
			}
			if len(raw) > 0 && b.size+len(raw) > importPiece && len(b.raw) > 0 {
				row := b.rows[len(b.rows)-1]
				b.rows = b.rows[:len(b.rows)-1]
				if err := s.checkPart(ctx, id, rec, &b); err != nil {
					return err
				}
				b.rows = append(b.rows, row)
			}
			if len(raw) > 0 {
				b.raw, b.at, b.size = append(b.raw, raw), append(b.at, len(b.rows)-1), b.size+len(raw)
			}
		}
		if len(b.rows) >= importRows {
			if err := s.checkPart(ctx, id, rec, &b); err != nil {
				return err
			}
		}
	}
}

// unharmed turns a panic over a file into an error: the file is somebody's, and the server goes on.
func unharmed(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = errors.New("the file has what no export has")
		}
	}()
	return read()
}

// take puts the row of a person into a batch, and returns the person, or nothing for one who has too much.
func (s *Service) take(b *batch, line int, p *personfile.Person) ([]byte, error) {
	groups := p.Groups[:0:0]
	for _, g := range p.Groups {
		if s.GivesRole(g) {
			p.Notes = append(p.Notes, "the group "+strconv.Quote(g)+" gives a role in the console and does not come: roles are given one by one")
			continue
		}
		groups = append(groups, g)
	}
	p.Groups = groups
	row := ImportRow{Line: line, Username: short(p.Username), Notes: p.Notes[:min(len(p.Notes), importRows)]}
	for i, n := range row.Notes {
		row.Notes[i] = short(n)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if len(raw) > importPiece || json.Unmarshal(raw, new(migration.Person)) != nil {
		row.Status, row.Problem, row.Unread, raw = migration.Failed, "the person has more than can be stored", true, nil
	}
	b.rows = append(b.rows, row)
	return raw, nil
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
func (s *Service) migrate(ctx context.Context, rec *jobRecord, raw []json.RawMessage, check bool, allow func(storage.Tx, string, []string) error) ([]migration.Result, error) {
	list := make([]migration.Person, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &list[i]); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	how := migration.How{Update: rec.Import.Update, Check: check, KeepSignIn: true, Allow: allow}
	return s.Identity.Migration.Import(ctx, list, how, rec.actor(func(tx storage.Tx) error { return allow(tx, "", nil) }))
}

// allowImport lets an import go on while it is in its state, and who has asked for it may change the person.
func (s *Service) allowImport(id string, rec *jobRecord, state JobState) func(storage.Tx, string, []string) error {
	return func(tx storage.Tx, who string, groups []string) error {
		if now, found, err := jobs.Find(tx, id); err != nil || !found || now.State != state {
			return cmp.Or(err, errStopped)
		}
		if slices.ContainsFunc(groups, s.GivesRole) {
			return &migration.RefusedError{Problem: "a group of the person gives a role in the console"}
		}
		err := s.Allow(tx, rec.By, JobImport, who)
		if why := new(Refusal); errors.As(err, &why) && !why.Over {
			return &migration.RefusedError{Problem: "exists and has as much to say as you, or is you: nothing is changed"}
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

// RunImport has the persons come of whom somebody has seen what would become. Error: ErrGone
func (s *Service) RunImport(ctx context.Context, id string, requester Requester, by event.Actor) error {
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
		err = json.NewDecoder(bytes.NewReader(plain)).Decode(&raw)
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

// ImportRows returns rows of the report behind a place, and what continues it. With partly they are those of whom
// something does not come.
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
	out := sheet.New(w, "line", "username", "outcome", "person_id", "problem", "does_not_come")
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
