//! Readings of a fleet of devices. All values are functions of the device and of the reading's
//! number, so every run writes the same items.

use orrery_examples::Result;
use orrery_examples::container::Container;
use serde_json::{Value, json};

/// The metrics of each device, with their units.
pub(crate) const METRICS: [(&str, &str); 4] = [
    ("Temperature", "Fahrenheit"),
    ("Humidity", "Percent"),
    ("Pressure", "Hectopascal"),
    ("Voltage", "Volt"),
];
/// Readings of one device in a day.
pub(crate) const READINGS_PER_DAY: usize = 4;

/// A reading of one metric of a device.
pub(crate) struct DeviceReading {
    pub(crate) id: String,
    pub(crate) device_id: String,
    pub(crate) reading_time: String,
    pub(crate) metric_type: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) metric_value: f64,
}

impl DeviceReading {
    /// Returns the reading `number` of the device `device`. A device measures every six hours, and
    /// measures another metric each time.
    pub(crate) fn new(device: usize, number: usize) -> DeviceReading {
        let device_id = format!("XMS-{device:04}");
        let (day, quarter) = (number / READINGS_PER_DAY, number % READINGS_PER_DAY);
        // The metric moves by one each day, so that none belongs to one time of the day.
        let (metric_type, unit) = METRICS[(number + day) % METRICS.len()];
        let value = (device * 7_919 + number * 104_729) % 600 + 600;
        DeviceReading {
            id: format!("{device_id}-{number:05}"),
            device_id,
            reading_time: format!("2016-02-{:02}T{:02}:00:00Z", day + 1, quarter * 6),
            metric_type,
            unit,
            metric_value: value as f64 / 10.0,
        }
    }

    /// Returns the item of the reading.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "deviceId": self.device_id,
            "readingTime": self.reading_time,
            "date": &self.reading_time[..10],
            "metricType": self.metric_type,
            "unit": self.unit,
            "metricValue": self.metric_value,
        })
    }
}

/// Returns `per_device` readings of each of `devices` devices.
pub(crate) fn fleet(devices: usize, per_device: usize) -> Vec<Value> {
    let mut readings = Vec::new();
    for number in 0..per_device {
        for device in 1..=devices {
            readings.push(DeviceReading::new(device, number).to_json());
        }
    }
    readings
}

/// Creates items whose partition key is the property `key`, one after the other: charges of queries
/// depend on the order of the items, and so are the same in each run.
pub(crate) async fn load(container: &Container, key: &str, items: &[Value]) -> Result<()> {
    for item in items {
        let value = item[key].as_str().unwrap_or_default();
        container.create(value, item).await?;
    }
    Ok(())
}
