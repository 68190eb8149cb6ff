package cluster_test

import (
	"context"
	"fmt"
	"testing"
)

// TestConfigurationsOfOneNode: an old configuration and a new one of a process lead side by side. The role stays until
// both have ended, and then another node has it at its next look, without waiting for the end of the term.
func TestConfigurationsOfOneNode(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a, b := join(t, db, "a"), join(t, db, "b")
	begun, done := make(chan context.Context, 2), make(chan struct{}, 2)
	var stops []context.CancelFunc
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		stops = append(stops, stop)
		go func() {
			a.Lead(ctx, "work", func(term context.Context) {
				begun <- term
				<-term.Done()
			})
			done <- struct{}{}
		}()
	}
	asked(t, a, "work")
	a.beat(t)
	<-begun
	term := <-begun
	atB := lead(t, b, "work")
	stops[0]()
	<-done
	a.beat(t)
	b.beat(t)
	atB.idle(t, "b")
	stops[1]()
	<-done
	a.beat(t)
	if list, err := a.List(t.Context()); err != nil || fmt.Sprint(list[0].Roles, list[1].Roles) != "[] []" {
		t.Errorf("List after the work has ended = %+v, %v, want that nobody has the role", list, err)
	}
	b.beat(t)
	<-atB.begun
	if err := mark(a, term, "1"); err == nil {
		t.Error("work that has ended writes in the term of another node")
	}
}

// TestWorkThatEnds: work that is done gives the role to the next node that wants it.
func TestWorkThatEnds(t *testing.T) {
	t.Parallel()
	db := &database{Store: memory(t), clock: newClock()}
	a, b := join(t, db, "a"), join(t, db, "b")
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Lead(t.Context(), "work", func(context.Context) {})
	}()
	asked(t, a, "work")
	a.beat(t)
	<-done
	a.beat(t)
	atB := lead(t, b, "work")
	b.beat(t)
	<-atB.begun
}
