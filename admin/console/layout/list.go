package layout

import (
	"net/url"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Empty says that a list is empty, and leads to what fills it for those who may.
func (v *Visit) Empty(key, act string) *web.Empty {
	out := &web.Empty{Text: web.Say(key)}
	if a := v.Screen.Act(act); a != nil && v.offers(a) {
		out.Next = &web.Action{Label: "console.act." + act, URL: v.Path() + "/" + act}
	}
	return out
}

// Pages returns the addresses of the first and the next page of a list, with its filter.
func (v *Visit) Pages(next string) (first, following string) {
	q := v.URL.Query()
	q.Del(SinceParam)
	q.Del("done")
	with := func(after string) string {
		if q.Del("after"); after != "" {
			q.Set("after", after)
		}
		if len(q) == 0 {
			return v.Path()
		}
		return v.Path() + "?" + q.Encode()
	}
	if v.URL.Query().Get("after") != "" {
		first = with("")
	}
	if next != "" {
		following = with(next)
	}
	return first, following
}

// OrNone is a value, or a dash for none.
func OrNone(s string) web.Cell {
	if s == "" {
		return web.Cell{Name: "—"}
	}
	return web.Cell{Name: s}
}

// Part returns the value that a form has under a name. An empty name would mean everything.
func Part(in url.Values, name string) string {
	if value := in.Get(name); value != "" {
		return value
	}
	return "-"
}
