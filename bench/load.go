package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// sample is the result of one measurement of closed-loop load.
type sample struct {
	requests int
	elapsed  time.Duration
	cpu      time.Duration // of the server
	own      time.Duration // of the load generator
	p50, p99 time.Duration
}

func (s sample) rate() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// perRequest is a processor time divided by the requests, in microseconds.
func (s sample) perRequest(t time.Duration) float64 {
	return float64(t.Nanoseconds()) / 1000 / float64(max(s.requests, 1))
}

// measuring is a measurement under way.
type measuring struct {
	pid      int
	at       time.Time
	cpu, own time.Duration
}

// begin notes what the process of a server and this one have used until now.
func begin(pid int) (m measuring, err error) {
	m.pid = pid
	if m.cpu, err = lab.CPU(pid); err != nil {
		return m, err
	}
	m.own, err = lab.CPU(os.Getpid())
	m.at = time.Now()
	return m, err
}

// end returns what was used since, with the time that each request took.
func (m measuring) end(took []time.Duration) (sample, error) {
	elapsed := time.Since(m.at)
	cpu, err1 := lab.CPU(m.pid)
	own, err2 := lab.CPU(os.Getpid())
	slices.Sort(took)
	return sample{
		requests: len(took), elapsed: elapsed, cpu: cpu - m.cpu, own: own - m.own,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99),
	}, firstOf(err1, err2)
}

// target is one kind of request to send.
type target struct {
	addr    string
	conns   int
	request []byte
	want    int // status of a good answer
	pid     int // of the server
	// next makes each request. nil: all are request.
	next func() ([]byte, error)
}

// load keeps the connections busy for d, after a warm-up, or until limit requests if limit is not 0.
// One thread serves all connections, to leave the shared processors to the server as far as possible.
func load(t target, d time.Duration, limit int) (sample, error) {
	l, err := newLoop(t)
	if err != nil {
		return sample{}, err
	}
	defer l.close() //nolint:errcheck // it was only read
	if limit == 0 {
		if err := l.run(time.Now().Add(min(d/5, 400*time.Millisecond)), 0); err != nil {
			return sample{}, err
		}
	} else {
		d = 24 * time.Hour
	}
	l.latencies, l.done = l.latencies[:0], 0
	m, err := begin(t.pid)
	if err != nil {
		return sample{}, err
	}
	if err := l.run(m.at.Add(d), limit); err != nil {
		return sample{}, fmt.Errorf("load on %s: %w", t.addr, err)
	}
	s, err := m.end(l.latencies)
	s.requests = l.done
	return s, err
}

func firstOf(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// paced sends rate requests a second over some connections, however long the answers take, and returns the sorted
// latencies, counted from when each should have been sent.
func paced(t target, rate int, d time.Duration) ([]time.Duration, error) {
	interval := time.Second * time.Duration(t.conns) / time.Duration(rate)
	var mu sync.Mutex // guards all and failed
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	start := time.Now().Add(50 * time.Millisecond)
	for i := range t.conns {
		c, err := lab.Dial(t.addr)
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			defer c.Close()
			var lat []time.Duration
			at := start.Add(interval * time.Duration(i) / time.Duration(t.conns))
			for ; at.Before(start.Add(d)); at = at.Add(interval) {
				pause(time.Until(at))
				// A late timer of this process does not count against the server; a busy connection does.
				due := at
				if late := time.Since(at); late < interval {
					due = time.Now()
				}
				status, err := c.Do(t.request)
				if err != nil || status != t.want {
					mu.Lock()
					failed = fmt.Errorf("paced load: status %d: %w", status, err)
					mu.Unlock()
					return
				}
				lat = append(lat, time.Since(due))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, lat...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, failed
}

func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
