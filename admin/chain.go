package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

// mostProblems is the maximum number of problems that a check keeps.
const mostProblems = 20

// ChainCheck is the last check of the seals of all events, or the one that is under way.
type ChainCheck struct {
	Waiting bool // for a server that does it
	Asked   time.Time
	By      string // who has asked
	Host    string // that has done it
	Ended   time.Time
	Chains  []CheckedChain
	// Problems are the problems of the events. Failed is why the check could not be made to its end.
	Problems []string
	Failed   string
}

// CheckedChain is the progress of the check of one chain.
type CheckedChain struct {
	Chain, Writer string
	Sealed        uint64 // number of the last event that was checked
	SealedAt      time.Time
	Events        uint64 // that were checked
}

// CheckChain asks for a check of the seals of all events. It is made in the background, by one server. Errors: those of
// the actor's Check, a failure of storage.
func (s *Service) CheckChain(ctx context.Context, by audit.Actor) error {
	e, err := s.Recorder.New(chainChecked, by.Origin)
	if err != nil {
		return err
	}
	now := s.Recorder.Now().UTC()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, _, err := chainChecks.Find(tx, theCheck)
		if err != nil || rec.Waiting { // it is on its way
			return err
		}
		rec.Waiting, rec.Asked, rec.By = true, now, by.Name
		if err := chainChecks.Put(tx, theCheck, rec, time.Time{}); err != nil {
			return err
		}
		return s.Recorder.Append(tx, by.Fill(e, "", ""))
	})
}

// LastChainCheck returns the last check. Asked is zero if there was none.
func (s *Service) LastChainCheck(tx storage.Tx) (c ChainCheck, err error) {
	rec, _, err := chainChecks.Find(tx, theCheck)
	c = ChainCheck{
		Waiting: rec.Waiting, Asked: rec.Asked, By: rec.By, Host: rec.Host, Ended: rec.Ended,
		Problems: rec.Problems, Failed: rec.Failed,
	}
	for _, one := range rec.Chains {
		c.Chains = append(c.Chains, CheckedChain(one))
	}
	return c, err
}

// WorkOffChecks makes the check that someone has asked for. host is this server. A server that ends meanwhile leaves it
// to the next one. An error is a failure of storage.
func (s *Service) WorkOffChecks(ctx context.Context, host string) error {
	var asked bool
	err := s.Store.View(ctx, func(tx storage.Tx) error {
		rec, _, err := chainChecks.Find(tx, theCheck)
		asked = rec.Waiting
		return err
	})
	if err != nil || !asked {
		return err
	}
	list, failed := calllog.Verify(ctx, s.Store)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	writers, err := cluster.Writers(ctx, s.Store)
	if err != nil {
		return err
	}
	var found []checkedRecord
	var problems []string
	for i := range list {
		v := &list[i]
		found = append(found, checkedRecord{v.Chain, writers[v.Lane], v.Sealed, v.SealedAt, v.Events})
		for _, p := range v.Problems {
			if len(problems) < mostProblems {
				problems = append(problems, audit.Clean(fmt.Sprintf("%s: %s", v.Chain, p)))
			}
		}
	}
	now := s.Recorder.Now().UTC()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		rec, _, err := chainChecks.Find(tx, theCheck)
		if err != nil || !rec.Waiting {
			return err
		}
		rec.Waiting, rec.Host, rec.Ended, rec.Chains, rec.Problems, rec.Failed = false, host, now, found, problems, ""
		if failed != nil {
			rec.Failed = audit.Clean(failed.Error())
		}
		return chainChecks.Put(tx, theCheck, rec, time.Time{})
	})
}
