package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const (
	rowPoll        = "devices that wait, polling"
	rowPollRespond = "plain Caddy, respond to the same requests at the same rate"
)

// pollEvery is the polling interval of a device. (RFC 8628 3.2)
const pollEvery = 5 * time.Second

// tv is the client of the devices.
const tv = "tv"

// polling measures devices that wait for a person and ask each five seconds, next to plain Caddy that answers the same
// requests with a text. At such a rate a request costs more than at the peak, since processors fall asleep between two.
func (b *bench) polling() error {
	codes, err := b.beginDevices(*devices)
	if err != nil {
		return err
	}
	poll := func(port, pid, want int) target {
		t := b.site(port, 64, "", "", "")
		var all [][]byte
		for _, code := range codes {
			form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {tv}, "device_code": {code}}
			all = append(all, lab.Request("POST", fmt.Sprintf("localhost:%d", port), "/oauth/token", form.Encode()))
		}
		n := 0
		t.next = func() ([]byte, error) {
			n++
			return all[(n-1)%len(all)], nil
		}
		t.pid, t.want = pid, want
		return t
	}
	rate := max(1, int(time.Duration(len(codes))*time.Second/pollEvery))
	targets := []namedTarget{
		{rowPoll, poll(b.server.Ports.Issuer, b.server.PID(), http.StatusBadRequest)},
		{rowPollRespond, poll(b.stock.ports[2], b.stock.pid(), http.StatusOK)},
	}
	samples := map[string][]sample{}
	for range *rounds {
		for _, n := range targets {
			d := 5 * length() / 2 // a device is not asked again before it may
			done := b.profileOf(n.name, d)
			s, err := steady(n.t, rate, d)
			done()
			if err := firstOf(err, b.ctx.Err()); err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			samples[n.name] = append(samples[n.name], s)
		}
	}
	ours, plain := mediansOf(samples[rowPoll]), mediansOf(samples[rowPollRespond])
	b.row(rowPoll, ours)
	b.row(rowPollRespond, plain)
	percent := func(cpu float64) float64 { return cpu * float64(rate) / 1e4 }
	b.note(fmt.Sprintf("plain Caddy's respond at %d/s, %% of a processor", rate), "%.1f", percent(plain.cpu))
	b.atMost(fmt.Sprintf("%d devices that wait, %% of a processor", len(codes)), percent(ours.cpu), 5)
	b.atMost(fmt.Sprintf("%d devices that wait, %% of a processor above plain Caddy's respond", len(codes)), percent(ours.cpu-plain.cpu), 5)
	return nil
}

// steady sends requests at a rate, and returns what the server has used for them.
func steady(t target, rate int, d time.Duration) (sample, error) {
	l, err := newLoop(t)
	if err != nil {
		return sample{}, err
	}
	defer l.close() //nolint:errcheck // it was only read
	m, err := begin(t.pid)
	if err != nil {
		return sample{}, err
	}
	if err := l.pace(rate, d); err != nil {
		return sample{}, err
	}
	return m.end(l.latencies)
}

// beginDevices starts devices, and returns their codes.
func (b *bench) beginDevices(n int) ([]string, error) {
	const workers = 32
	addr := fmt.Sprintf("127.0.0.1:%d", b.server.Ports.Issuer)
	request := lab.Request("POST", fmt.Sprintf("localhost:%d", b.server.Ports.Issuer), "/oauth/device_authorization", "client_id="+tv)
	parts, failed := make([][]string, workers), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			c, err := lab.Dial(addr)
			if err != nil {
				failed[i] = err
				return
			}
			defer c.Close()
			c.Keep = true
			for range n/workers + 1 {
				status, err := c.Do(request)
				var answer struct {
					Code string `json:"device_code"`
				}
				if err == nil {
					err = json.Unmarshal(c.Body, &answer)
				}
				if err != nil || answer.Code == "" {
					failed[i] = fmt.Errorf("a device was not begun: status %d: %.300s: %w", status, c.Body, err)
					return
				}
				parts[i] = append(parts[i], answer.Code)
			}
		})
	}
	all.Wait()
	codes := slices.Concat(parts...)
	return codes[:min(n, len(codes))], firstOf(failed...)
}
