package config

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

type seenKey struct{}

// Seen returns the context of a request that has read these units: its page is made with them and reads none again.
func Seen(ctx context.Context, u *Units) context.Context {
	return context.WithValue(ctx, seenKey{}, u)
}

// ofPage returns the units with which a page is made.
func (s *Service) ofPage(ctx context.Context) (*Units, error) {
	if u, ok := ctx.Value(seenKey{}).(*Units); ok {
		return u, nil
	}
	return s.Current(ctx)
}

// pageMessages is the messages of one state of the units, as pages read them.
type pageMessages struct {
	units  *Units
	layers []*page.Overrides
}

// Overrides returns the messages that replace the built-in ones, the strongest first: custom_messages, then messages.
// It returns the same pointers while nothing changes. When storage cannot be read it returns the last ones, since a
// page that reports the failure needs them too.
func (s *Service) Overrides(ctx context.Context) []*page.Overrides {
	known := s.shown.Load()
	u, err := s.ofPage(ctx)
	if err != nil {
		s.log.Debug("custom messages not read", zap.Error(err))
		if known == nil {
			return nil
		}
		return known.layers
	}
	if known != nil && known.units == u {
		return known.layers
	}
	next := &pageMessages{units: u, layers: []*page.Overrides{
		{Default: u.CustomMessages.Default, Locales: plain(u.CustomMessages.Locales)}, {Locales: plain(u.Messages)},
	}}
	s.shown.Store(next)
	return next.layers
}

// plain returns the translations by their locales, as maps of strings.
func plain[M ~map[string]Translations](in M) map[string]map[string]string {
	out := make(map[string]map[string]string, len(in))
	for locale, texts := range in {
		out[locale] = texts
	}
	return out
}
