package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// sample is what one measurement of closed-loop load gave.
type sample struct {
	requests int
	elapsed  time.Duration
	cpu      time.Duration // of the server
	p50, p99 time.Duration
	statuses map[int]int
}

func (s sample) rate() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// perRequest is the server's processor time of one request in microseconds.
func (s sample) perRequest() float64 {
	return float64(s.cpu.Nanoseconds()) / 1000 / float64(max(s.requests, 1))
}

// target is one thing to send requests to.
type target struct {
	addr    string
	conns   int
	request []byte
	want    int // status of a good answer
}

// load keeps the connections busy for d, after a warm-up, or until limit requests when that is not 0. pid is the server.
func load(t target, pid int, d time.Duration, limit int64) (sample, error) {
	warm := min(d/5, 400*time.Millisecond)
	if limit > 0 {
		warm = 0
	}
	var measuring, stop atomic.Bool
	var count atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex // guards what follows
	var all []time.Duration
	statuses := map[int]int{}
	var failed error
	for range t.conns {
		c, err := lab.Dial(t.addr)
		if err != nil {
			return sample{}, err
		}
		wg.Go(func() {
			defer c.Close()
			lat, seen, err := busy(c, t.request, &measuring, &stop, &count, limit)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, lat...)
			for s, n := range seen {
				statuses[s] += n
			}
			if err != nil {
				failed = err
			}
		})
	}
	pause(warm)
	before, err := lab.CPU(pid)
	begin := time.Now()
	measuring.Store(true)
	if limit > 0 {
		wg.Wait()
	} else {
		pause(d)
	}
	measuring.Store(false)
	elapsed := time.Since(begin)
	after, err2 := lab.CPU(pid)
	stop.Store(true)
	wg.Wait()
	if err != nil || err2 != nil || failed != nil {
		return sample{}, fmt.Errorf("load on %s: %w", t.addr, firstOf(err, err2, failed))
	}
	for s, n := range statuses {
		if s != t.want {
			return sample{}, fmt.Errorf("load on %s: %d answers with status %d, want %d only", t.addr, n, s, t.want)
		}
	}
	slices.Sort(all)
	return sample{
		requests: len(all), elapsed: elapsed, cpu: after - before,
		p50: quantile(all, 0.5), p99: quantile(all, 0.99), statuses: statuses,
	}, nil
}

func firstOf(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func busy(c *lab.Conn, request []byte, measuring, stop *atomic.Bool, count *atomic.Int64, limit int64) (lat []time.Duration, seen map[int]int, err error) {
	seen = map[int]int{}
	if limit == 0 {
		lat = make([]time.Duration, 0, 1<<16)
	}
	for !stop.Load() {
		if limit > 0 && count.Add(1) > limit {
			return lat, seen, nil
		}
		begin := time.Now()
		status, err := c.Do(request)
		if err != nil {
			return lat, seen, err
		}
		seen[status]++
		if measuring.Load() {
			lat = append(lat, time.Since(begin))
		}
	}
	return lat, seen, nil
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// paced sends rate requests a second over some connections, whatever the answers take, and returns the sorted latencies,
// counted from when each should have been sent.
func paced(t target, rate int, d time.Duration) ([]time.Duration, error) {
	interval := time.Second * time.Duration(t.conns) / time.Duration(rate)
	var mu sync.Mutex // guards all and failed
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	begin := time.Now().Add(50 * time.Millisecond)
	for i := range t.conns {
		c, err := lab.Dial(t.addr)
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			defer c.Close()
			var lat []time.Duration
			at := begin.Add(interval * time.Duration(i) / time.Duration(t.conns))
			for ; at.Before(begin.Add(d)); at = at.Add(interval) {
				pause(time.Until(at))
				// A timer of this process that was late is not the server's doing; a connection that was still busy is.
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
