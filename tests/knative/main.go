// Command knative prints what Knative's autoscaler decides on a load.
//
// Input is one JSON object a line: first the settings, then one object for each second. Output is one object for each
// second that asks for a decision.
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"knative.dev/serving/pkg/apis/autoscaling"
	"knative.dev/serving/pkg/autoscaler/aggregation"
	"knative.dev/serving/pkg/autoscaler/metrics"
	"knative.dev/serving/pkg/autoscaler/scaling"
)

// settings are those of Knative's config-autoscaler, times in seconds.
type settings struct {
	Target           float64 `json:"target"` // what one pod should carry
	Full             float64 `json:"full"`   // what one pod carries
	Window           float64 `json:"window"`
	PanicWindow      float64 `json:"panicWindow"`
	PanicThreshold   float64 `json:"panicThreshold"`
	ScaleDownDelay   float64 `json:"scaleDownDelay"`
	MaxScaleUpRate   float64 `json:"maxScaleUpRate"`
	MaxScaleDownRate float64 `json:"maxScaleDownRate"`
	Pods             int     `json:"pods"` // ready at the start
}

// second is what was seen in one second.
type second struct {
	At          int      `json:"at"`
	Concurrency *float64 `json:"concurrency"` // average over the second before; none where nothing was heard
	Ready       int      `json:"ready"`
	Decide      bool     `json:"decide"`
}

type decision struct {
	At    int   `json:"at"`
	Pods  int32 `json:"pods"`
	Valid bool  `json:"valid"` // without data there is no decision
}

// load stands for Knative's metric collector, with its own buckets.
type load struct {
	stable, panic *aggregation.TimedFloat64Buckets
}

func (l *load) record(at time.Time, value float64) {
	l.stable.Record(at, value)
	l.panic.Record(at, value)
}

func (l *load) StableAndPanicConcurrency(_ types.NamespacedName, now time.Time) (float64, float64, error) {
	if l.stable.IsEmpty(now) {
		return 0, 0, metrics.ErrNoData
	}
	return l.stable.WindowAverage(now), l.panic.WindowAverage(now), nil
}

func (l *load) StableAndPanicRPS(key types.NamespacedName, now time.Time) (float64, float64, error) {
	return l.StableAndPanicConcurrency(key, now)
}

// pods stands for the endpoints that Knative counts.
type pods struct{ ready int }

func (p *pods) ReadyCount() (int, error)    { return p.ready, nil }
func (p *pods) NotReadyCount() (int, error) { return 0, nil }

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func main() {
	log.SetFlags(0)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	var s settings
	read(in, &s)
	window := &load{
		stable: aggregation.NewTimedFloat64Buckets(seconds(s.Window), time.Second),
		panic:  aggregation.NewTimedFloat64Buckets(seconds(s.PanicWindow), time.Second),
	}
	counter := &pods{ready: s.Pods}
	spec := &scaling.DeciderSpec{
		ScalingMetric:    autoscaling.Concurrency,
		TargetValue:      s.Target,
		TotalValue:       s.Full,
		PanicThreshold:   s.PanicThreshold,
		StableWindow:     seconds(s.Window),
		ScaleDownDelay:   seconds(s.ScaleDownDelay),
		MaxScaleUpRate:   s.MaxScaleUpRate,
		MaxScaleDownRate: s.MaxScaleDownRate,
		Reachable:        true,
	}
	start, scaler := begin(window, counter, spec)
	logger := zap.NewNop().Sugar()
	var now second
	for now = (second{}); read(in, &now); now = (second{}) {
		at := start.Add(time.Duration(now.At) * time.Second)
		counter.ready = now.Ready
		if now.Concurrency != nil {
			window.record(at, *now.Concurrency)
		}
		if !now.Decide {
			continue
		}
		result := scaler.Scale(logger, at)
		if err := out.Encode(decision{now.At, result.DesiredPodCount, result.ScaleValid}); err != nil {
			log.Fatal(err)
		}
	}
}

// begin makes an autoscaler. It reads the clock once, then; everything after is told, in time since a whole second that
// is less than a tick before.
func begin(load *load, pods *pods, spec *scaling.DeciderSpec) (time.Time, scaling.UniScaler) {
	for {
		start := time.Now().Truncate(time.Second)
		scaler := scaling.New(*attribute.EmptySet(), noop.NewMeterProvider(), "default", "trace", load, pods, spec)
		if time.Since(start) < 1900*time.Millisecond {
			return start, scaler
		}
	}
}

// read takes one line, and says whether there was one.
func read(in *bufio.Scanner, value any) bool {
	if !in.Scan() {
		if err := in.Err(); err != nil {
			log.Fatal(err)
		}
		return false
	}
	if err := json.Unmarshal(in.Bytes(), value); err != nil {
		log.Fatalf("%q: %v", in.Text(), err)
	}
	return true
}
