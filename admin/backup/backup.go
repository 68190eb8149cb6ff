// Package backup copies the store while it serves, on request or on a schedule, and lists and removes the copies.
// `caddy gatehouse backup` and the admin console share it. The format of a copy is in storage/transfer.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

const (
	noteEvery = 2 * time.Second // how often a backup under way says how far it is
	silent    = time.Minute     // after which one that says nothing has broken off
	kept      = 400 * 24 * time.Hour
	lookEvery = 8 << 20 // bytes between two looks at the free space
	suffix    = ".backup"
	nameForm  = "20060102-150405"
)

// MostFiles is the maximum number of files of Start in the directory. Only those of the schedule are removed by
// themselves.
const MostFiles = 20

// State is the progress of a backup.
type State string

// The states.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

var (
	// ErrUnsupported says that the engine has its own way of making backups.
	ErrUnsupported = errors.New("this storage has its own way of making backups")
	// ErrRunning says that one is being made at this moment.
	ErrRunning = errors.New("a backup is being made at this moment")
	// ErrMany says that the directory is full of them.
	ErrMany = errors.New("the directory has many backups: remove or move older ones")
	// ErrNone says that there is no backup to test.
	ErrNone = errors.New("there is no complete backup on this machine")
	// ErrRoom says that the disk has not enough room for one more.
	ErrRoom = errors.New("the disk has not enough room for a backup")
)

// Backup is one that was made, or is being made.
type Backup struct {
	ID, File, Host, By, Problem string
	State                       State
	Bytes, Records              int64 // Records: 0, it was not read again
	Began, Ended                time.Time
}

// Service makes backups. It is safe for concurrent use.
type Service struct {
	Store    storage.Store
	Recorder *audit.Recorder
	// Dir is the directory of the files of Start, on this machine. It is made with mode 0700.
	Dir  string
	Host string
	// Restore fills a store in an empty directory from a backup, and runs after in it. nil: the engine has no directory
	Restore func(ctx context.Context, dir string, r io.Reader, after func(storage.Tx) error) error
	// Room reports whether the disk has room for more. nil: no one knows.
	Room func() bool
	Log  *zap.Logger

	mu      sync.Mutex // guards the two below
	stop    context.CancelFunc
	stopped chan struct{}
}

// Begin notes that a copy is asked for, which the caller of Copy puts at to, and returns its id. One that cannot be
// noted, as on a full disk, has no id and can be made all the same.
func (s *Service) Begin(ctx context.Context, to string, by audit.Actor) (id string, err error) {
	if _, ok := s.Store.(storage.Backuper); !ok {
		return "", ErrUnsupported
	}
	e, err := s.Recorder.New(started, by.Origin)
	if err != nil {
		return "", err
	}
	now := s.now()
	rec := record{State: Running, File: audit.Clean(to), By: by.Name, Began: now, Seen: now}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := made.Put(tx, e.ID, rec, now.Add(kept)); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", rec.File))
	})
	if err != nil {
		s.Log.Warn("a backup is complete, and could not be recorded", zap.Error(err))
		return "", nil
	}
	return e.ID, nil
}

// Copy writes one consistent copy of all records to w. It is complete once the caller has kept it and says so by
// Finish. id is that of Begin.
func (s *Service) Copy(ctx context.Context, w io.Writer, id string, by audit.Actor) error {
	b, ok := s.Store.(storage.Backuper)
	if !ok {
		return ErrUnsupported
	}
	out := &watched{to: w}
	quiet := s.tell(ctx, id, out)
	err := b.Backup(ctx, out)
	if quiet(); err != nil {
		return errors.Join(err, s.Finish(context.WithoutCancel(ctx), id, err.Error(), by))
	}
	if id == "" {
		return nil
	}
	size, now := out.n.Load(), s.now()
	if err := s.Store.Update(ctx, func(tx storage.Tx) error {
		return change(tx, id, func(r *record) { r.Bytes, r.Seen = size, now })
	}); err != nil {
		s.Log.Warn("the size of a backup could not be recorded", zap.Error(err))
	}
	return nil
}

// Finish notes what has become of a copy: it is kept, or there was a problem. A copy without an id, or one that is
// noted as finished, stays as it is.
func (s *Service) Finish(ctx context.Context, id, problem string, by audit.Actor) error {
	kind, state := ended, Done
	if problem != "" {
		kind, state = broken, Failed
	}
	e, err := s.Recorder.New(kind, by.Origin)
	if err != nil || id == "" {
		return err
	}
	now := s.now()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := made.Find(tx, id)
		if err != nil || !found || rec.State != Running || rec.Host != "" {
			return err
		}
		rec.State, rec.Problem, rec.Seen = state, audit.Clean(problem), now
		if err := made.Put(tx, id, rec, now.Add(kept)); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", rec.File))
	})
}

// tell notes from time to time how far a backup is, until the function that it returns is called.
func (s *Service) tell(ctx context.Context, id string, out *watched) (quiet func()) {
	if id == "" {
		return func() {}
	}
	telling, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(noteEvery)
		defer tick.Stop()
		for {
			select {
			case <-telling:
				return
			case <-tick.C:
				n, now := out.n.Load(), s.now()
				_ = s.Store.Update(ctx, func(tx storage.Tx) error { // the next one says it again
					return change(tx, id, func(r *record) { r.Bytes, r.Seen = n, now })
				})
			}
		}
	}()
	return func() {
		close(telling)
		<-told
	}
}

// Start begins to write a backup into a new file of the directory, and returns. The file is read again when it is
// complete. Errors: ErrUnsupported, ErrRunning, ErrMany, ErrRoom, those of the actor's Check, a failure of storage.
func (s *Service) Start(ctx context.Context, by audit.Actor) error {
	b, ok := s.Store.(storage.Backuper)
	if !ok {
		return ErrUnsupported
	}
	if s.Room != nil && !s.Room() {
		return ErrRoom
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy() {
		return ErrRunning
	}
	if n, err := s.files(); err != nil || n >= MostFiles {
		return errors.Join(err, map[bool]error{true: ErrMany}[n >= MostFiles])
	}
	e, err := s.Recorder.New(started, by.Origin)
	if err != nil {
		return err
	}
	now := s.now()
	end := suffix
	if by.ID == scheduler {
		end = scheduledSuffix
	}
	path := filepath.Join(s.Dir, "gatehouse-"+now.Format(nameForm)+"-"+e.ID[len(e.ID)-4:]+end)
	rec := record{State: Running, File: path, Host: s.Host, By: by.Name, Began: now, Seen: now}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		for other, err := range made.Scan(tx, storage.Range{Descending: true, Limit: MostFiles}) {
			if err != nil {
				return err
			}
			if other.Value.Host != "" && other.Value.goesOn(now) {
				return ErrRunning
			}
		}
		if err := made.Put(tx, e.ID, rec, now.Add(kept)); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", path))
	})
	if err != nil {
		return err
	}
	by.Check = nil // who has lost the right meanwhile has begun it all the same
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.stopped = stop, make(chan struct{})
	go func(stopped chan struct{}) {
		defer close(stopped)
		defer stop()
		s.write(work, b, e.ID, path, by)
	}(s.stopped)
	return nil
}

// busy reports whether this process writes one. s.mu is held.
func (s *Service) busy() bool {
	if s.stopped == nil {
		return false
	}
	select {
	case <-s.stopped:
		return false
	default:
		return true
	}
}

// files makes the directory and counts the backups in it.
func (s *Service) files() (n int, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return 0, err
	}
	list, err := os.ReadDir(s.Dir)
	for _, f := range list {
		if strings.HasSuffix(f.Name(), suffix) {
			n++
		}
	}
	return n, err
}

// write writes the file, says meanwhile how far it is, reads it again and notes what became of it.
func (s *Service) write(ctx context.Context, b storage.Backuper, id, file string, by audit.Actor) {
	out := &watched{room: s.Room}
	quiet := s.tell(ctx, id, out)
	var records int64
	size, err := transfer.WriteFile(file, func(w io.Writer) error {
		out.to = w
		return b.Backup(ctx, out)
	})
	if err == nil {
		records, err = transfer.CheckFile(file)
	}
	quiet()
	kind, state, problem := ended, Done, ""
	if err != nil {
		kind, state, problem = broken, Failed, audit.Clean(err.Error())
		s.Log.Error("backup failed", zap.String("file", file), zap.Error(err))
	}
	now := s.now()
	e, err := s.Recorder.New(kind, by.Origin)
	if err == nil {
		// It is noted although the configuration ends, whose end has broken it off.
		err = s.Store.Update(context.WithoutCancel(ctx), func(tx storage.Tx) error {
			if err := change(tx, id, func(r *record) {
				r.State, r.Bytes, r.Records, r.Problem, r.Seen = state, size, records, problem, now
			}); err != nil {
				return err
			}
			return s.Recorder.Append(tx, by.Fill(e, "", file))
		})
	}
	if err != nil {
		s.Log.Warn("the outcome of a backup could not be recorded", zap.String("file", file), zap.Error(err))
	}
}

// change changes the record of a backup.
func change(tx storage.Tx, id string, how func(*record)) error {
	rec, err := made.Get(tx, id)
	if err != nil {
		return err
	}
	how(&rec)
	return made.Put(tx, id, rec, rec.Seen.Add(kept))
}

// Wait waits for what is being written.
func (s *Service) Wait() {
	s.mu.Lock()
	stopped := s.stopped
	s.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// Close breaks off what is being written, and waits for it.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		s.stop()
		<-s.stopped
	}
	return nil
}

// List returns the newest backups.
func (s *Service) List(tx storage.Tx, most int, now time.Time) (list []Backup, err error) {
	for e, err := range made.Scan(tx, storage.Range{Descending: true, Limit: most}) {
		if err != nil {
			return nil, err
		}
		r := &e.Value
		b := Backup{
			ID: e.Key, File: r.File, Host: r.Host, By: r.By, Problem: r.Problem, State: r.State, Bytes: r.Bytes, Records: r.Records,
			Began: r.Began, Ended: r.Seen,
		}
		if b.State == Running && !r.goesOn(now) { // the server that wrote it was ended
			b.State, b.Problem = Failed, fmt.Sprintf("%s has not said anything since", cmp.Or(r.Host, "the command that writes it"))
		}
		list = append(list, b)
	}
	return list, nil
}

func (s *Service) now() time.Time { return s.Recorder.Now().UTC() }

// watched counts what is written, and breaks off before the disk is full.
type watched struct {
	to     io.Writer
	room   func() bool
	n      atomic.Int64
	looked int64
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	if at := w.n.Load(); w.room != nil && at-w.looked >= lookEvery {
		if w.looked = at; !w.room() {
			return 0, ErrRoom
		}
	}
	n, err := w.to.Write(p)
	w.n.Add(int64(n))
	return n, err
}
