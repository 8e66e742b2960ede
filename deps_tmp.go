package deps

import (
	_ "github.com/gin-gonic/gin"
	_ "github.com/openai/openai-go"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/spf13/cobra"
	_ "github.com/yalue/onnxruntime_go"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "go4.org/unsafe/assume-no-moving-gc"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/blas/blas32"
	_ "gonum.org/v1/gonum/stat/distuv"
	_ "gonum.org/v1/netlib/blas/netlib"
	_ "google.golang.org/protobuf/encoding/protowire"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
)
