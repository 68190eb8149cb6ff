package ratelimits

import (
	"net/http"
	"strconv"
	"time"
)

// The fields of an answer, as draft-ietf-httpapi-ratelimit-headers-10 names them, in Go's spelling.
const (
	policyField = "Ratelimit-Policy"
	limitField  = "Ratelimit"
)

// Fields are the names of the fields that Tell sets.
var Fields = []string{policyField, limitField}

// Tell sets RateLimit-Policy and RateLimit of an answer, with an item for each limit that the request was counted by.
// (draft-ietf-httpapi-ratelimit-headers-10 3 and 4)
func (c *Counted) Tell(h http.Header) {
	if c == nil || len(c.list) == 0 {
		return
	}
	var policies, states [256]byte
	p, s := policies[:0], states[:0]
	for i := range c.list {
		e := &c.list[i]
		if i > 0 {
			p, s = append(p, ", "...), append(s, ", "...)
		}
		p = append(p, e.rule.policy...)
		s = append(append(s, e.rule.label...), ";r="...)
		s = strconv.AppendInt(s, e.state.Remaining, 10)
		s = strconv.AppendInt(append(s, ";t="...), seconds(e.state.Reset), 10)
	}
	values := []string{string(p), string(s)}
	h[policyField], h[limitField] = values[0:1:1], values[1:2:2]
}

// Line is a limit that concerns a request, for operators.
type Line struct {
	// Limit is the limit in words, such as: limit 100/min per client.
	Limit string `json:"limit"`
	// Remaining is the number of requests that can follow at once.
	Remaining int64 `json:"remaining"`
	// Seconds until all of it is there again.
	Reset int64 `json:"reset"`
	// Wait is the number of seconds until a request passes. 0: one passes now.
	Wait int64 `json:"wait,omitempty"`
	// Refuses is set for the limit that refuses the request.
	Refuses bool `json:"refuses,omitempty"`
}

// Lines are the limits that a request was counted by.
func (c *Counted) Lines() (out []Line) {
	if c == nil {
		return nil
	}
	for i := range c.list {
		e := &c.list[i]
		out = append(out, Line{
			Limit: e.rule.name + " " + e.rule.text, Remaining: e.state.Remaining, Reset: seconds(e.state.Reset), Wait: seconds(e.state.Retry),
			Refuses: !e.state.OK && i == len(c.list)-1,
		})
	}
	return out
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
