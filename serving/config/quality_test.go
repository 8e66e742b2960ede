package config

import (
	"strings"
	"testing"
)

// A key that has no effect yet is refused, rather than silently ignored.
func TestRequestsAreNotAnsweredTwiceYet(t *testing.T) {
	q := DefaultQuality()
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	q.Shadow.Share = 0.05
	if err := q.Validate(); err == nil || !strings.Contains(err.Error(), "shadow.share: 0.05; requests cannot be answered by a second variant yet") {
		t.Errorf("a share of the requests: %v", err)
	}
}
