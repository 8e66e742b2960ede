package etcd_test

import (
	"strings"
	"testing"

	"gearshift/internal/etcd"
)

func TestNamesOfStoresAreChecked(t *testing.T) {
	for _, good := range []string{"", "gearshift.db", "./a:b/etcd.db", "/data/x.db", `C:\data\x.db`, "etcd://h:2379/g", "etcds://h:1,i:2/g"} {
		if err := etcd.Check(good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{"etcd:/h:2379/g", "etcd:h:2379/g", "etcds:/h:2379/g", "http://h:2379/g", "http://user:secret@h:2379/g", "etcd3://h:2379/g", "etcd://h:2379", "etcd://h/g"} {
		err := etcd.Check(bad)
		if err == nil || !strings.Contains(err.Error(), "etcd://HOST:PORT") || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q gives %v; want one line with the form, without a password", bad, err)
		}
	}
}
