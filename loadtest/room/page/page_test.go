package page

import (
	"bytes"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// A report must load nothing, and no text in its picture may become markup.
func TestFrozenReportIsOneFile(t *testing.T) {
	html, err := Frozen(map[string]string{"headline": "</script><script>alert(1)</script>"})
	kit.Must(t, err)

	if bytes.Contains(html, []byte("alert(1)</script>")) {
		t.Error("text of the picture ends its element")
	}

	if loads := regexp.MustCompile(`(?i:\s(src|href)=)"[^#"][^"]*"|@import|\burl\(|https?://[^w]`).FindAll(html,
		-1); len(loads) > 0 {
		t.Errorf("the report loads %q", loads)
	}

	if got := bytes.Count(html, []byte("</script>")); got != 2 {
		t.Errorf("%d scripts end in the report, not 2: picture and script", got)
	}
}

// The room's policy is default-src 'self', so inline style and script would be dead, and markup
// made of text would be a hole.
func TestPageFitsItsPolicy(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"index.html": regexp.MustCompile(`(?i)<style|<script>|\sstyle=|\son\w+=|https?:`),
		"room.css":   regexp.MustCompile(`(?i)@import|url\(|https?:`),
		"room.js": regexp.MustCompile(
			`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\('style|</script`),
	}
	for name, pattern := range forbidden {
		content, err := fs.ReadFile(Files, name)
		kit.Must(t, err)

		for i, line := range strings.Split(string(content), "\n") {
			if found := pattern.FindString(line); found != "" {
				t.Errorf("%s:%d: %q", name, i+1, found)
			}
		}
	}
}
