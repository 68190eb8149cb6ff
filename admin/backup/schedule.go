package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// MostKept is the maximum number of scheduled backups that are kept. It leaves room for those that people make.
	MostKept = 14

	scheduler = "schedule" // who makes scheduled backups
	only      = "schedule" // key of the one schedule, and of the one test

	scheduledSuffix = "-" + scheduler + suffix // of the files that the schedule makes
)

// Every says how often backups are made.
type Every string

// The values of Every.
const (
	Off    Every = ""
	Daily  Every = "daily"
	Weekly Every = "weekly"
)

// ErrSchedule says that a schedule cannot be kept.
var ErrSchedule = errors.New("the schedule is not one of a backup a day or a week")

// Schedule says when backups are made by themselves, in UTC, and how many of them are kept.
type Schedule struct {
	Every   Every
	Weekday time.Weekday
	Hour    int
	Keep    int
}

// Planned is a schedule with what has become of it.
type Planned struct {
	Schedule

	Next, Last time.Time // zero: none
	Problem    string    // why the last one did not begin. Empty: it did
}

// next is the time of the first backup after now.
func (s *Schedule) next(now time.Time) time.Time {
	now = now.UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), s.Hour, 0, 0, 0, time.UTC)
	for !at.After(now) || s.Every == Weekly && at.Weekday() != s.Weekday {
		at = at.AddDate(0, 0, 1)
	}
	return at
}

func (r *planRecord) schedule() Schedule { return Schedule{r.Every, r.Weekday, r.Hour, r.Keep} }

// Plan returns the schedule.
func (s *Service) Plan(tx storage.Tx) (p Planned, err error) {
	rec, _, err := plans.Find(tx, only)
	return Planned{rec.schedule(), rec.Next, rec.Last, rec.Problem}, err
}

// SetPlan puts a schedule into effect, from now on. Errors: ErrUnsupported, ErrSchedule, those of the actor's Check, a
// failure of storage.
func (s *Service) SetPlan(ctx context.Context, p Schedule, by audit.Actor) error {
	if _, ok := s.Store.(storage.Backuper); !ok {
		return ErrUnsupported
	}
	known := p.Every == Off || p.Every == Daily || p.Every == Weekly
	if !known || p.Hour < 0 || p.Hour > 23 || p.Weekday < time.Sunday || p.Weekday > time.Saturday || p.Every != Off &&
		(p.Keep < 1 || p.Keep > MostKept) {
		return ErrSchedule
	}
	e, err := s.Recorder.New(planned, by.Origin)
	if err != nil {
		return err
	}
	words := "off"
	next := time.Time{}
	if p.Every != Off {
		words, next = fmt.Sprintf("%s at %02d:00 UTC, %d kept", p.Every, p.Hour, p.Keep), p.next(s.now())
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, _, err := plans.Find(tx, only)
		if err != nil {
			return err
		}
		rec.Every, rec.Weekday, rec.Hour, rec.Keep, rec.Next, rec.Problem = p.Every, p.Weekday, p.Hour, p.Keep, next, ""
		if err := plans.Put(tx, only, rec, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", words))
	})
}

// Due begins a backup if its time has come, and removes the files of scheduled ones that are too many. A time that has
// passed while no server was there is made up for once. An error is a failure of storage or of the directory.
func (s *Service) Due(ctx context.Context) error {
	now := s.now()
	var rec planRecord
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, _, err = plans.Find(tx, only)
		return err
	})
	if err != nil || rec.Every == Off {
		return err
	}
	if err := s.prune(ctx, rec.Keep); err != nil {
		return err
	}
	due := false
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		due = false
		if rec, _, err = plans.Find(tx, only); err != nil || rec.Every == Off || rec.Next.After(now) {
			return err
		}
		due = true
		p := rec.schedule()
		rec.Next, rec.Last = p.next(now), now
		return plans.Put(tx, only, rec, time.Time{})
	})
	if err != nil || !due {
		return err
	}
	began := s.Start(ctx, audit.Actor{ID: scheduler, Name: scheduler})
	problem := ""
	if began != nil {
		problem = audit.Clean(began.Error())
		s.Log.Error("scheduled backup not begun", zap.Error(began))
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := plans.Find(tx, only)
		if err != nil || !found || rec.Problem == problem {
			return err
		}
		rec.Problem = problem
		return plans.Put(tx, only, rec, time.Time{})
	})
}

// prune removes files of the schedule from the directory of this machine until so many are left. Those that people have
// made are not counted and stay.
func (s *Service) prune(ctx context.Context, keep int) error {
	files, err := s.scheduled(ctx)
	for i := 0; err == nil && i < len(files)-keep; i++ {
		if err = os.Remove(files[i].path); err != nil && !errors.Is(err, os.ErrNotExist) {
			break
		}
		if err = nil; files[i].id != "" {
			err = s.Store.Update(ctx, func(tx storage.Tx) error { return made.Delete(tx, files[i].id) })
		}
	}
	return err
}

// scheduledFile is a file of the schedule.
type scheduledFile struct {
	path, id string // id: of its record. Empty: a restore has undone that
}

// scheduled returns the files of the schedule in the directory, except one that is being made, in the order in which
// they can go: those that are not known to be complete, then the oldest. This machine may have had another name when it
// made them.
func (s *Service) scheduled(ctx context.Context) (list []scheduledFile, err error) {
	found, err := os.ReadDir(s.Dir) // before the records, which are there before their files
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := map[string]storage.Entry[record]{}
	if err := s.Store.View(ctx, func(tx storage.Tx) error {
		for e, err := range made.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			known[e.Value.File] = e
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var complete []scheduledFile
	for _, f := range found { // by their names, which begin with the time
		path := filepath.Join(s.Dir, f.Name())
		e, recorded := known[path]
		ours := recorded && e.Value.By == scheduler || !recorded && strings.HasSuffix(f.Name(), scheduledSuffix)
		switch {
		case !ours || !f.Type().IsRegular() || e.Value.goesOn(s.now()):
		case e.Value.State == Done:
			complete = append(complete, scheduledFile{path, e.Key})
		default:
			list = append(list, scheduledFile{path, e.Key})
		}
	}
	return append(list, complete...), nil
}

// has reports whether a backup is complete and in the directory of this machine.
func (s *Service) has(r *record) bool {
	if r.State != Done || filepath.Dir(r.File) != filepath.Clean(s.Dir) {
		return false
	}
	info, err := os.Lstat(r.File)
	return err == nil && info.Mode().IsRegular()
}

// Trial is a test of whether a backup can be restored.
type Trial struct {
	File, Host, By, Problem string
	State                   State
	Records                 int64
	Began, Ended            time.Time
}

// LastTrial returns the last test. Without one its State is empty.
func (s *Service) LastTrial(tx storage.Tx, now time.Time) (t Trial, err error) {
	rec, found, err := trials.Find(tx, only)
	if err != nil || !found {
		return t, err
	}
	t = Trial{rec.File, rec.Host, rec.By, rec.Problem, rec.State, rec.Records, rec.Began, rec.Seen}
	if t.State == Running && now.Sub(rec.Seen) >= mostTrial {
		t.State, t.Problem = Failed, fmt.Sprintf("%s has not said anything since", rec.Host)
	}
	return t, nil
}

// mostTrial is the maximum duration of a test.
const mostTrial = 6 * time.Hour

// Try begins to restore the newest complete backup of this machine into a directory next to the others, which is
// removed afterwards, and returns. Nothing else is touched. Errors: ErrUnsupported, ErrRunning, ErrRoom, ErrNone, those
// of the actor's Check, a failure of storage.
func (s *Service) Try(ctx context.Context, by audit.Actor) error {
	if s.Restore == nil {
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
	e, err := s.Recorder.New(tried, by.Origin)
	if err != nil {
		return err
	}
	now := s.now()
	rec := record{State: Running, Host: s.Host, By: by.Name, Began: now, Seen: now}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		rec.File = ""
		for b, err := range made.Scan(tx, storage.Range{Descending: true}) {
			if err != nil {
				return err
			}
			if s.has(&b.Value) {
				rec.File = b.Value.File
				break
			}
		}
		if rec.File == "" {
			return ErrNone
		}
		if err := trials.Put(tx, only, rec, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", rec.File))
	})
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.stopped = stop, make(chan struct{})
	go func(stopped chan struct{}) {
		defer close(stopped)
		defer stop()
		state, problem := Done, ""
		n, err := s.tryFile(work, rec.File)
		if err != nil {
			state, problem = Failed, audit.Clean(err.Error())
			s.Log.Error("a backup could not be restored in a test", zap.String("file", rec.File), zap.Error(err))
		}
		end := s.now()
		err = s.Store.Update(context.WithoutCancel(work), func(tx storage.Tx) error {
			now, err := trials.Get(tx, only)
			if err != nil {
				return err
			}
			now.State, now.Problem, now.Records, now.Seen = state, problem, n, end
			return trials.Put(tx, only, now, time.Time{})
		})
		if err != nil {
			s.Log.Warn("the outcome of a test of a backup could not be recorded", zap.Error(err))
		}
	}(s.stopped)
	return nil
}

// tryFile restores a file into a new directory, removes that, and returns how many records there were.
func (s *Service) tryFile(ctx context.Context, file string) (n int64, err error) {
	dir, err := os.MkdirTemp(s.Dir, "trial-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	err = s.Restore(ctx, dir, f, func(tx storage.Tx) error {
		n = 0
		for _, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err == nil && n == 0 {
		err = errors.New("there is nothing in it")
	}
	return n, err
}
