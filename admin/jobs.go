package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What a job does to each person.
const (
	JobBlock   = "block"
	JobUnblock = "unblock"
	JobJoin    = "join"
	JobLeave   = "leave"
	JobEnd     = "end" // their sessions
	JobImport  = "import"
)

// JobState is the progress of a job.
type JobState string

// The states of a job.
const (
	JobRunning JobState = "running"
	JobDone    JobState = "done"
	JobStopped JobState = "stopped" // by someone
	JobRefused JobState = "refused" // who asked for it has lost the right to it

	// Before an import runs, its file is read, and someone looks at what would come.
	JobChecking JobState = "checking"
	JobWaiting  JobState = "waiting"
	JobFailed   JobState = "failed" // the file cannot be read
)

// Ended reports whether nothing happens any more.
func (s JobState) Ended() bool {
	return s != JobRunning && s != JobChecking && s != JobWaiting
}

// Why a person was left out of a job.
const (
	LeftRights = "rights" // they are of equal or higher rank, or the one who asked
	LeftOwner  = "owner"  // an owner has to stop being one first
	LeftState  = "state"  // their state forbids it
	LeftGone   = "gone"   // there is no such person any more
	LeftOther  = "other"  // the change was refused
)

const (
	jobBatch   = 20                  // persons between two notes of how far a job is
	jobKept    = 30 * 24 * time.Hour // after its end
	maxLeft    = 500                 // who are left out are listed up to this number
	maxChosen  = 500                 // persons chosen one by one
	countMost  = 1000                // persons who are counted before someone confirms
	countHolds = 100                 // of them whose sessions and tokens are counted
)

// Requester is the person who has asked for a job.
type Requester struct {
	ID      string `cbor:"1,keyasint"`
	Name    string `cbor:"2,keyasint"`
	Address string `cbor:"3,keyasint,omitempty"`
	Agent   string `cbor:"4,keyasint,omitempty"`
	// Epoch is that of the person: a block, a new password or the end of all sessions ends what they have asked for.
	Epoch int64 `cbor:"5,keyasint,omitempty"`
	Role  int   `cbor:"6,keyasint"` // that they had, in the words of who allows it
	// BelowOwner says that they are no owner.
	BelowOwner bool `cbor:"7,keyasint,omitempty"`
}

// Filter selects persons as personindex.Query does.
type Filter struct {
	Partition string       `cbor:"1,keyasint,omitempty"`
	Text      string       `cbor:"2,keyasint,omitempty"`
	Group     string       `cbor:"3,keyasint,omitempty"` // id
	State     person.State `cbor:"4,keyasint,omitempty"`
}

func (f Filter) query(after string, limit int) personindex.Query {
	return personindex.Query{Partition: f.Partition, Text: f.Text, Group: f.Group, State: f.State, After: after, Limit: limit}
}

// Selection is which persons a job is about: those of the ids, or without ids all that the filter selects.
type Selection struct {
	Persons []string
	Filter  Filter
}

// NewJob is a job that someone asks for.
type NewJob struct {
	Selection

	Kind   string
	Group  string // id, of JobJoin and JobLeave
	Reason string
	By     Requester
}

// Job is work on many persons, and how far it is.
type Job struct {
	NewJob

	ID               string
	GroupName        string
	State            JobState
	Done, Left       int
	Created, Changed time.Time
	Import           *Import // nil: it is another kind of job
}

// LeftOut is a person that a job has left out, and one of the constants that say why.
type LeftOut struct{ Person, Why string }

// Refusal is why a job leaves a person out. Over says that the one who asked has lost the right to the job itself.
type Refusal struct {
	Why  string
	Over bool
}

func (r *Refusal) Error() string { return "the job may not: " + r.Why }

// errStopped says that a job is at its end.
var errStopped = errors.New("the job has ended")

// Numbers are the numbers of people and things that a job would affect. More says that there are more persons, MoreHeld
// that there are more sessions and tokens than were counted.
type Numbers struct {
	Persons, Sessions, Tokens int
	More, MoreHeld            bool
}

// Count returns what a job about a selection would hit. It reads a bounded number of records.
func (s *Service) Count(tx storage.Tx, sel Selection, now time.Time) (n Numbers, err error) {
	ids := sel.Persons
	if len(ids) == 0 {
		if ids, n.More, err = personindex.Count(tx, s.Identity.Person, sel.Filter.query("", 0), countMost); err != nil {
			return n, err
		}
	}
	n.Persons = len(ids)
	if n.MoreHeld = n.More; len(ids) > countHolds {
		ids, n.MoreHeld = ids[:countHolds], true
	}
	people, err := s.Identity.Person.ManyPersons(tx, ids)
	if err != nil {
		return n, err
	}
	for _, p := range people {
		open, err := s.SessionsOf(tx, p, now)
		if err != nil {
			return n, err
		}
		n.Sessions += len(open)
		for _, kind := range []string{"tokens", "app_passwords"} {
			if p.State != person.Active {
				break
			}
			held, err := s.Authz.Held(tx, p.ID, kind, now)
			if err != nil {
				return n, err
			}
			n.Tokens += len(held)
		}
	}
	return n, nil
}

// StartJob stores a job, which a worker does. by is checked in the transaction.
func (s *Service) StartJob(ctx context.Context, n NewJob, by audit.Actor) (id string, err error) {
	if len(n.Persons) > maxChosen {
		return "", &person.TooManyError{Field: "persons", Most: maxChosen}
	}
	u, err := uuid.NewV7FromReader(s.Recorder.Random)
	if err != nil {
		return "", err
	}
	e, err := s.Recorder.New(jobStarted, by.Origin)
	if err != nil {
		return "", err
	}
	now := s.Recorder.Now().UTC()
	id = u.String()
	rec := jobRecord{
		Kind: n.Kind, Group: n.Group, Reason: n.Reason, By: n.By, Persons: n.Persons, Filter: n.Filter,
		State: JobRunning, Created: now, Changed: now,
	}
	return id, s.Store.Update(ctx, func(tx storage.Tx) error {
		rec := rec
		if n.Group != "" {
			g, err := s.Identity.Person.GroupByID(tx, n.Group)
			if err != nil {
				return err
			}
			rec.GroupName = g.Name
		}
		if err := jobs.Create(tx, id, rec, time.Time{}); err != nil {
			return err
		}
		if err := openJobs.Put(tx, id, struct{}{}, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", n.Kind))
	})
}

// StopJob ends a job: no one is changed any more. Who was changed stays so. Error: ErrGone.
func (s *Service) StopJob(ctx context.Context, id string, by audit.Actor) error {
	e, err := s.Recorder.New(jobStopped, by.Origin)
	if err != nil {
		return err
	}
	now := s.Recorder.Now().UTC()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := jobs.Find(tx, id)
		if err != nil || !found || rec.State.Ended() {
			return errors.Join(err, ErrGone)
		}
		if err := endJob(tx, id, rec, JobStopped, now); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", rec.Kind))
	})
}

// endJob writes the end of a job. It is kept for a while.
func endJob(tx storage.Tx, id string, rec jobRecord, state JobState, now time.Time) error {
	rec.State, rec.Changed, rec.Persons = state, now, nil
	if rec.Import != nil { // a worker clears away what was uploaded
		if err := openJobs.Put(tx, id, struct{}{}, time.Time{}); err != nil {
			return err
		}
	} else if err := openJobs.Delete(tx, id); err != nil {
		return err
	}
	return jobs.Put(tx, id, rec, now.Add(jobKept))
}

// FindJob returns a job with the persons that it has left out, or ErrGone.
func (s *Service) FindJob(tx storage.Tx, id string) (j Job, left []LeftOut, err error) {
	rec, found, err := jobs.Find(tx, id)
	if err == nil && !found {
		err = ErrGone
	}
	if err != nil {
		return j, nil, err
	}
	for e, err := range leftOut.Scan(tx, storage.Range{Prefix: storage.Prefix(id)}) {
		if err != nil {
			return j, nil, err
		}
		left = append(left, LeftOut(e.Value))
	}
	return rec.job(id), left, nil
}

// Jobs returns the newest jobs.
func (s *Service) Jobs(tx storage.Tx, most int) (list []Job, err error) {
	for e, err := range jobs.Scan(tx, storage.Range{Descending: true, Limit: most}) {
		if err != nil {
			return nil, err
		}
		list = append(list, e.Value.job(e.Key))
	}
	return list, nil
}

func (r *jobRecord) job(id string) Job {
	return Job{
		NewJob: NewJob{Selection: Selection{Persons: r.Persons, Filter: r.Filter}, Kind: r.Kind, Group: r.Group, Reason: r.Reason, By: r.By},
		ID:     id, GroupName: r.GroupName, State: r.State, Done: r.Done, Left: r.Left, Created: r.Created, Changed: r.Changed, Import: r.Import,
	}
}

// WorkOff does all jobs there are, until they are done or ctx ends: a part of each in turn, so none waits for the end
// of a long one, and past one that fails, whose error is returned in the end. A node that takes over goes on where the
// one before has noted to be: what was done since is done again, and changes nothing.
func (s *Service) WorkOff(ctx context.Context) (failed error) {
	skip := map[string]bool{} // those that have failed
	for more := true; more; {
		ids, err := s.open(ctx)
		if err != nil {
			return errors.Join(failed, err)
		}
		more = false
		for _, id := range ids {
			if skip[id] {
				continue
			}
			further, err := s.workOn(ctx, id)
			if failed = errors.Join(failed, err); err != nil {
				skip[id] = true
			}
			more = more || (further && err == nil)
		}
	}
	return failed
}

// open returns the jobs that are not done.
func (s *Service) open(ctx context.Context) (ids []string, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		ids = nil
		for e, err := range openJobs.Scan(tx, storage.Range{Limit: countMost}) {
			if err != nil {
				return err
			}
			ids = append(ids, e.Key)
		}
		return nil
	})
	return ids, err
}

// workOn does a part of a job and notes how far it is. more reports whether the job goes on.
func (s *Service) workOn(ctx context.Context, id string) (more bool, err error) {
	var rec jobRecord
	var next []string
	after, whole := "", false
	err = s.Store.View(ctx, func(tx storage.Tx) (err error) {
		next, whole = nil, false
		if rec, err = jobs.Get(tx, id); err != nil || rec.State != JobRunning || rec.Import != nil {
			return err
		}
		if len(rec.Persons) > 0 {
			end := min(len(rec.Persons), rec.At+jobBatch)
			next, whole = rec.Persons[rec.At:end], end == len(rec.Persons)
			return nil
		}
		found, err := personindex.Find(tx, s.Identity.Person, rec.Filter.query(rec.After, jobBatch))
		if errors.Is(err, personindex.ErrCursor) { // the indexes have changed: from the beginning
			found, err = personindex.Find(tx, s.Identity.Person, rec.Filter.query("", jobBatch))
		}
		if errors.Is(err, person.ErrNoGroup) {
			whole, err = true, nil
		}
		for _, f := range found.Persons {
			if !f.CreatedAt.After(rec.Created) { // no one was asked about the others
				next = append(next, f.ID)
			}
		}
		after, whole = found.Next, found.Next == ""
		return err
	})
	if err == nil && rec.Import != nil {
		return s.workOnImport(ctx, id, rec)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State != JobRunning {
		return false, s.forgetOpen(ctx, id)
	}
	if err != nil {
		return false, err
	}
	var left []leftRecord
	over := false
	for _, who := range next {
		why := new(Refusal)
		err := s.one(ctx, id, &rec, who)
		if errors.Is(err, errStopped) {
			break
		}
		switch {
		case err == nil:
			rec.Done++
			continue
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(err, &why):
		case errors.Is(err, person.ErrNoPerson):
			why = &Refusal{Why: LeftGone}
		case errors.As(err, new(*person.StateError)):
			why = &Refusal{Why: LeftState}
		case errors.As(err, new(*person.ValidationError)), errors.Is(err, person.ErrNoGroup):
			why = &Refusal{Why: LeftOther}
		default:
			return false, fmt.Errorf("job %s: %w", id, err)
		}
		if over = why.Over; over {
			break
		}
		left = append(left, leftRecord{who, why.Why})
	}
	return s.note(ctx, id, rec, after, len(next), left, whole, over)
}

// note writes how far a job is, unless it was stopped.
func (s *Service) note(ctx context.Context, id string, did jobRecord, after string, took int, left []leftRecord, whole,
	over bool,
) (more bool, err error) {
	now := s.Recorder.Now().UTC()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		more = false
		rec, found, err := jobs.Find(tx, id)
		if err != nil || !found {
			return err
		}
		for i, l := range left {
			if n := did.Left + i; n < maxLeft {
				if err := leftOut.Put(tx, storage.Key(id, fmt.Sprintf("%06d", n)), l, now.Add(2*jobKept)); err != nil {
					return err
				}
			}
		}
		rec.Done, rec.Left, rec.After, rec.At, rec.Changed = did.Done, did.Left+len(left), after, did.At+took, now
		switch {
		case rec.State != JobRunning:
			return jobs.Put(tx, id, rec, now.Add(jobKept))
		case over:
			return endJob(tx, id, rec, JobRefused, now)
		case whole:
			return endJob(tx, id, rec, JobDone, now)
		}
		more = true
		return jobs.Put(tx, id, rec, time.Time{})
	})
	return more, err
}

func (s *Service) forgetOpen(ctx context.Context, id string) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error { return openJobs.Delete(tx, id) })
}

// one does the job to one person. That no one has stopped it, and the rights of who has asked, are checked in the
// transaction of the change.
func (s *Service) one(ctx context.Context, job string, j *jobRecord, id string) error {
	check := func(tx storage.Tx) error {
		if now, found, err := jobs.Find(tx, job); err != nil || !found || now.State != JobRunning {
			return cmp.Or(err, errStopped)
		}
		return s.Allow(tx, j.By, j.Kind, id)
	}
	by := j.actor(check)
	// Before the change too: who is left out is listed, also where there would be nothing to change.
	if err := s.Store.View(ctx, check); err != nil {
		return err
	}
	persons := s.Identity.Person
	switch j.Kind {
	case JobBlock:
		return persons.SetState(ctx, id, person.Blocked, by)
	case JobUnblock:
		return persons.SetState(ctx, id, person.Active, by)
	case JobEnd:
		return persons.EndSessions(ctx, id, by)
	}
	_, err := persons.UpdateGroup(ctx, j.Group, by, func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
		if c.Add = []string{id}; j.Kind == JobLeave {
			c.Add, c.Remove = nil, []string{id}
		}
		return nil
	})
	return err
}

// actor returns the requester of a job as the cause of its changes.
func (r *jobRecord) actor(check func(storage.Tx) error) audit.Actor {
	return audit.Actor{
		ID: r.By.ID, Name: r.By.Name, Origin: audit.Origin{ClientIP: r.By.Address, UserAgent: r.By.Agent}, Reason: r.Reason,
		Check: check, BelowOwner: r.By.BelowOwner,
	}
}

// NoteExport records that someone takes a list of persons away as a file, before they get it.
func (s *Service) NoteExport(ctx context.Context, by audit.Actor) error {
	return s.noteAsked(ctx, exported, "", by)
}

// NoteExamination records that someone has the doctor look at a site, before it sends anything there.
func (s *Service) NoteExamination(ctx context.Context, origin string, by audit.Actor) error {
	return s.noteAsked(ctx, examined, origin, by)
}

// noteAsked records that someone has asked for something that changes nothing.
func (s *Service) noteAsked(ctx context.Context, kind audit.Type, what string, by audit.Actor) error {
	e, err := s.Recorder.New(kind, by.Origin)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx storage.Tx) error { return s.Recorder.Append(tx, by.Fill(e, "", what)) })
}
