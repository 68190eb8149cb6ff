package cimd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

// fetch reads and checks a document. Redirects are not followed: what is at another address says nothing of this one.
func (d *Documents) fetch(ctx context.Context, id string) (*Document, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, unusable(errors.New("its address cannot be read"))
	}
	req.Close = true // it is fetched once in hours
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "Gatehouse")
	res, err := d.http.Do(req)
	switch {
	case errors.Is(err, outbound.ErrAddress):
		return nil, unusable(outbound.ErrAddress)
	case err != nil:
		return nil, away(fmt.Errorf("it cannot be fetched: %w", withoutAddress(err)))
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests:
		return nil, away(fmt.Errorf("its host answers %d", res.StatusCode))
	case res.StatusCode != http.StatusOK:
		return nil, unusable(fmt.Errorf("its host answers %d in place of 200", res.StatusCode))
	case isPage(res.Header.Get("Content-Type")):
		return nil, unusable(errPage)
	case !isJSON(res.Header.Get("Content-Type")):
		return nil, unusable(errors.New("its Content-Type is not application/json"))
	case res.ContentLength > d.cfg.MaxSize:
		return nil, unusable(fmt.Errorf("it is larger than %d bytes", d.cfg.MaxSize))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, d.cfg.MaxSize+1))
	if err != nil {
		return nil, away(fmt.Errorf("it cannot be read to its end: %w", withoutAddress(err)))
	}
	if int64(len(body)) > d.cfg.MaxSize {
		return nil, unusable(fmt.Errorf("it is larger than %d bytes", d.cfg.MaxSize))
	}
	doc, err := d.read(id, body)
	if err != nil {
		return nil, unusable(err)
	}
	now := d.now()
	doc.Until = now.Add(min(max(outbound.Fresh(res.Header, now), d.cfg.Shortest), d.cfg.Longest))
	return doc, nil
}

// withoutAddress is the cause of an error of net/http, which names the whole address.
func withoutAddress(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		return u.Err
	}
	return err
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || (strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")))
}

func isPage(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "text/html" || media == "application/xhtml+xml")
}
