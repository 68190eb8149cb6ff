package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// memory measures anonymous memory: idle, while a million tokens are issued and read, and idle again.
func (b *bench) memory() error {
	if err := b.fresh(); err != nil {
		return err
	}
	pause(min(10*time.Second, 5*length()))
	rss := func() float64 {
		n, err := lab.RssAnon(b.server.PID())
		if err != nil {
			return 0
		}
		return float64(n) / 1e6
	}
	idle := rss()
	b.atMost("RssAnon idle, in MB", idle, 100)
	peak := []float64{idle}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				peak = append(peak, rss())
			}
		}
	})
	began := time.Now()
	_, err := load(b.issue(lab.MachineID), 0, *tokens)
	took := time.Since(began)
	if err == nil {
		_, err = load(b.introspect("client", 16), 2*length(), 0)
	}
	close(stop)
	wg.Wait()
	if err != nil {
		return err
	}
	b.note(fmt.Sprintf("%d tokens issued", *tokens), "in %.0f s", took.Seconds())
	b.atMost(fmt.Sprintf("RssAnon at the peak, %d live tokens, in MB", *tokens), slices.Max(peak), 320)
	again := rss()
	began = time.Now()
	for again >= 256 && time.Since(began) < 3*time.Minute && b.ctx.Err() == nil {
		pause(time.Second)
		again = rss()
	}
	waited := time.Since(began)
	rest := min(30*time.Second, 15*length())
	pause(rest)
	again = rss()
	b.note("… after", "%.0f s", (waited + rest).Seconds())
	b.atMost(fmt.Sprintf("RssAnon idle again, %d live tokens, in MB", *tokens), again, 256)
	ready, err := b.reopen()
	if err != nil {
		return err
	}
	b.note("start on them after kill -9", "%d ms", ready.Milliseconds())
	return nil
}

func (b *bench) reopen() (time.Duration, error) {
	b.server.Kill()
	return b.server.StartReady(b.ctx)
}
