package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// MaxImport is the maximum size of the files of an import together, in bytes, and maxRead that of a format that is
	// read as a whole, and takes many times its size in memory.
	MaxImport = 16 << 20
	maxRead   = 2 << 20
	// MaxImportsWaiting is the maximum number of imports of one person that wait for confirmation: their uploads are
	// stored until then.
	MaxImportsWaiting = 5

	importKept  = 24 * time.Hour // what was uploaded, at most
	importPiece = 256 << 10      // bytes of a piece of a file, and of the persons of a part
	cleared     = 100            // records that one transaction deletes
)

// What is wrong with an upload.
var (
	ErrImportKind  = errors.New("the kind of the export is not known")
	ErrImportFiles = errors.New("the kind of the export has other files")
	ErrImportLarge = errors.New("the file is too large")
	ErrImportsWait = errors.New("too many imports wait for confirmation")
)

// NewImport is an upload. Next returns one file after the other, and io.EOF.
type NewImport struct {
	Kind   string
	Update bool
	By     Requester
	Next   func() (io.Reader, error)
}

// StartImport stores what is uploaded, sealed and piece by piece, and has it read: no one comes before RunImport.
// Errors: those above, that of the upload, or a *Refusal.
func (s *Service) StartImport(ctx context.Context, n NewImport) (id string, err error) {
	most := importer.Files(n.Kind)
	if most == 0 {
		return "", ErrImportKind
	}
	u, err := uuid.NewV7FromReader(s.Recorder.Random)
	if err != nil {
		return "", err
	}
	id = u.String()
	now := s.Recorder.Now()
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		_, err := freeSlot(tx, n.By.ID, now)
		return err
	})
	if err != nil {
		return "", errors.Join(err, discard(n))
	}
	if err := s.keepUpload(ctx, id, n, most); err != nil {
		// Who breaks an upload off leaves nothing either. What fails here is deleted after a day.
		for more, failed := true, error(nil); more && failed == nil; {
			more, failed = s.clearImport(context.WithoutCancel(ctx), id)
		}
		return "", err
	}
	return id, nil
}

// discard reads what no one keeps: a browser shows no answer before it has sent everything.
func discard(n NewImport) error {
	for {
		in, err := n.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.Discard, in)
		}
		if err != nil {
			return err
		}
	}
}

// slots returns what waits in each slot of a person, and the key of one that is free, or "".
func slots(tx storage.Tx, personID string, now time.Time) (waiting []Job, free string, err error) {
	for i := range MaxImportsWaiting {
		key := storage.Key(personID, strconv.Itoa(i))
		slot, found, err := importSlots.Find(tx, key)
		if err != nil {
			return nil, "", err
		}
		var rec jobRecord
		if found {
			if rec, found, err = jobs.Find(tx, slot.Job); err != nil {
				return nil, "", err
			}
		}
		if found && (rec.State == JobChecking || rec.State == JobWaiting) && now.Before(rec.Import.Until) {
			waiting = append(waiting, rec.job(slot.Job))
		} else if free == "" {
			free = key
		}
	}
	return waiting, free, nil
}

// WaitingImports returns the imports of a person that wait for confirmation, the oldest first.
func (s *Service) WaitingImports(tx storage.Tx, personID string, now time.Time) ([]Job, error) {
	list, _, err := slots(tx, personID, now)
	slices.SortFunc(list, func(a, b Job) int { return a.Created.Compare(b.Created) })
	return list, err
}

// freeSlot returns the key of a slot in which a further import of a person can wait. Two that come at once take the
// same one, so a transaction of the two runs again. Error: ErrImportsWait
func freeSlot(tx storage.Tx, personID string, now time.Time) (key string, err error) {
	if _, key, err = slots(tx, personID, now); err == nil && key == "" {
		err = ErrImportsWait
	}
	return key, err
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
	case n.Kind == importer.Authelia || n.Kind == importer.Authentik || n.Kind == importer.Dex:
		if im.Size > maxRead {
			return ErrImportLarge
		}
	}
	rec := jobRecord{Kind: JobImport, By: n.By, State: JobChecking, Created: now, Changed: now, Import: im}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.Allow(tx, n.By, JobImport, ""); err != nil {
			return err
		}
		slot, err := freeSlot(tx, n.By.ID, now)
		if err != nil {
			return err
		}
		if err := importSlots.Put(tx, slot, slotRecord{id}, im.Until); err != nil {
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
