/** Fields for throughput: none or shared, manual, autoscale; with an estimate of the cost. */

import type { JSX } from "preact";
import { createKeptStore, useStore } from "../../../store.ts";
import { RadioField, TextField } from "../../../ui/field.tsx";
import { monthlyCost, PRICE_DEFAULT, typedPrice } from "../logic/cost.ts";
import type { ThroughputChoice } from "../logic/container-form.ts";
import { wholeNumber } from "../logic/container-form.ts";

const price = createKeptStore("price", String(PRICE_DEFAULT), (value): value is string => {
  return typeof value === "string";
});

export interface ThroughputFieldsProps {
  readonly value: ThroughputChoice;
  readonly onChange: (value: ThroughputChoice) => void;
  /** Words of the choice without throughput of its own; absent if there is no such choice. */
  readonly sharedLabel?: string | undefined;
  readonly error?: string | null | undefined;
  readonly help?: string | undefined;
}

/** Draws the mode, the RU/s and the estimate. */
export function ThroughputFields(props: ThroughputFieldsProps): JSX.Element {
  const { value, onChange } = props;
  const modes: (readonly [ThroughputChoice["mode"], string])[] = [
    ["manual", "Manual: the same RU/s at all times"],
    ["autoscale", "Autoscale: between 10 % of a maximum and the maximum"],
  ];
  if (props.sharedLabel !== undefined) modes.unshift(["shared", props.sharedLabel]);
  const choose = (mode: ThroughputChoice["mode"]): void => {
    const ru = mode === "autoscale" ? "1000" : "400";
    onChange({ mode, ru });
  };
  return (
    <div class="stack">
      <RadioField label="Throughput" value={value.mode} options={modes} onChange={choose} />
      {value.mode !== "shared" && (
        <div class="data-pair">
          <TextField
            label={value.mode === "manual" ? "RU/s" : "Maximum RU/s"}
            type="number"
            min={value.mode === "manual" ? 400 : 1_000}
            step={value.mode === "manual" ? 100 : 1_000}
            value={value.ru}
            onInput={(ru) => onChange({ ...value, ru })}
            error={props.error}
            help={props.help}
          />
          <CostEstimate mode={value.mode} ru={value.ru} />
        </div>
      )}
    </div>
  );
}

/** Draws the price that a user sets and the cost of a month as an estimate. */
export function CostEstimate(props: {
  readonly mode: "manual" | "autoscale";
  readonly ru: string;
}): JSX.Element {
  const typed = useStore(price);
  const figure = typedPrice(typed);
  const ru = wholeNumber(props.ru);
  return (
    <div class="data-cost">
      <TextField
        label="Price of 100 RU/s for an hour"
        value={typed}
        onInput={(text) => price.set(text)}
        error={figure === null ? "The price is not a number. Write a price such as 0.008." : null}
        help={figure === null || ru === null ? "Your own figure, for the estimate." : estimate(props.mode, ru, figure)}
      />
    </div>
  );
}

function estimate(mode: "manual" | "autoscale", ru: number, figure: number): string {
  const { low, high } = monthlyCost(mode, ru, figure);
  const amount = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 });
  const cost = mode === "manual" ? amount(high) : `${amount(low)} to ${amount(high)}`;
  return `Estimate for a hosted service: ${cost} a month in one region. This server charges nothing.`;
}
